package tidegate;

import java.lang.reflect.Field;
import java.util.Collections;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.iceberg.arrow.ArrowAllocation;
import org.apache.iceberg.shaded.org.apache.arrow.memory.RootAllocator;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Lets an executor's memory go of the allocators of Iceberg's readers.
 *
 * For each Parquet file that it reads in vectors Iceberg makes allocators, children of one that lives as long as the
 * JVM, and closes none of them (apache/iceberg#13937). Their buffers are freed with the reader; the children stay, about
 * 500 bytes each, 30 and more in a small flush. Here the parent refers to them weakly, so that they go with their reader.
 *
 * serve.py compiles this with Spark's own compiler, Janino: no lambdas.
 */
public class AllocatorPlugin implements SparkPlugin {
    private static final Logger LOG = LoggerFactory.getLogger(AllocatorPlugin.class);

    public DriverPlugin driverPlugin() {
        return null;
    }

    public ExecutorPlugin executorPlugin() {
        return new InExecutor();
    }

    public static class InExecutor implements ExecutorPlugin {
        /** Before the first task runs, while the parent has no children. An executor works without it as well. */
        public void init(PluginContext context, Map<String, String> settings) {
            try {
                Field children = RootAllocator.class.getSuperclass().getDeclaredField("childAllocators");
                children.setAccessible(true);
                children.set(ArrowAllocation.rootAllocator(), Collections.synchronizedMap(new Children()));
            } catch (Throwable error) {
                LOG.warn("Iceberg's readers leave their allocators in memory, as Iceberg itself has it", error);
            }
        }
    }

    /** The parent puts each child under itself: a value that is the key would keep it. */
    private static class Children extends WeakHashMap<Object, Object> {
        public Object put(Object child, Object same) {
            return super.put(child, Boolean.TRUE);
        }
    }
}
