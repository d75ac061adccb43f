package tidegate;

import java.io.Closeable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.WeakHashMap;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.spark.SparkCatalog;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Iceberg's catalog for Spark, whose connections are shared by all sessions of a server that give the same settings.
 *
 * Spark makes a catalog for each session and closes none. Each JDBC catalog opens connections of its own, so that a
 * server with a session for each job kept one more for every job. Here the catalog behind it is made once for each name
 * and settings, secrets included, and is closed when the sessions that used it are gone from memory.
 *
 * serve.py compiles this with Spark's own compiler, Janino: no lambdas, and casts where Java would infer a type.
 */
public class SharedCatalog extends SparkCatalog {
    private static final Logger LOG = LoggerFactory.getLogger(SharedCatalog.class);
    private static final Map<List<Object>, Shared> SHARED = new HashMap<List<Object>, Shared>();

    protected Catalog buildIcebergCatalog(String name, CaseInsensitiveStringMap options) {
        Shared shared = null;
        List<Shared> unused = new ArrayList<Shared>();
        List<Object> settings = Arrays.asList(new Object[] {name, options.asCaseSensitiveMap(), hadoopSettings()});
        synchronized (SHARED) {
            shared = (Shared) SHARED.get(settings);
            if (shared == null) {
                shared = new Shared();
                SHARED.put(settings, shared);
            }
            shared.users.put(this, Boolean.TRUE);
            Iterator entries = SHARED.values().iterator();
            while (entries.hasNext()) {
                Shared entry = (Shared) entries.next();
                if (entry.users.isEmpty()) {
                    entries.remove();
                    unused.add(entry);
                }
            }
        }
        for (int i = 0; i < unused.size(); i++) {
            ((Shared) unused.get(i)).close();
        }
        // by one session at a time, and without holding up sessions of other catalogs where a database does not answer
        synchronized (shared) {
            if (shared.catalog == null) {
                shared.catalog = super.buildIcebergCatalog(name, options);
            }
            return shared.catalog;
        }
    }

    /** What a session says to file systems beside the catalog's own settings: it becomes part of the catalog. A job's own
     * settings, with what only its pipeline may know, do not. */
    private static Map<String, String> hadoopSettings() {
        Map<String, String> found = new TreeMap<String, String>();
        Iterator settings = scala.jdk.javaapi.CollectionConverters.asJava(SparkSession.active().conf().getAll())
            .entrySet().iterator();
        while (settings.hasNext()) {
            Map.Entry setting = (Map.Entry) settings.next();
            String key = (String) setting.getKey();
            if (key.startsWith("spark.hadoop.") || !(key.startsWith("spark.") || key.startsWith("tidegate."))) {
                found.put(key, (String) setting.getValue());
            }
        }
        return found;
    }

    private static class Shared {
        private final Map<SparkCatalog, Boolean> users = new WeakHashMap<SparkCatalog, Boolean>();
        private Catalog catalog;

        synchronized void close() {
            if (catalog instanceof Closeable) {
                try {
                    ((Closeable) catalog).close();
                } catch (Exception error) {
                    LOG.warn("A catalog that no session uses any more could not be closed", error);
                }
            }
        }
    }
}
