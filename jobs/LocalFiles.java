package tidegate;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local files, whose permissions are set without a process.
 *
 * Without its native library, which pyspark does not bring, Hadoop starts `chmod` for each file and folder that it makes:
 * for each data file, manifest and metadata file of a table on local disk, and for the checksum beside it. That was a
 * tenth of what a small flush costs.
 *
 * serve.py compiles this with Spark's own compiler, Janino, for a server whose executors are in its own JVM.
 */
public class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
        super(new Raw());
    }

    public static class Raw extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) throws IOException {
            if (permission.getStickyBit()) {
                super.setPermission(path, permission);
                return;
            }
            String text = permission.getUserAction().SYMBOL + permission.getGroupAction().SYMBOL
                + permission.getOtherAction().SYMBOL;
            Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(text));
        }
    }
}
