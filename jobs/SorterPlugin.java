package tidegate;

import java.lang.ref.Reference;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Map;
import org.apache.spark.TaskFailedReason;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;
import org.apache.spark.sql.execution.UnsafeExternalRowSorter;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Lets an executor's memory go of the sorters of tasks that have ended.
 *
 * Since SPARK-52609 (Spark 4.1) each task that sorts puts its sorter into a variable of its thread, and nothing takes it
 * out. The thread runs the next tasks. Java drops such a value only when the thread happens to need its place, so that
 * a busy thread keeps a dozen sorters and more, each with the page it read last: 32 MB on two cores with a heap of 4 GB,
 * 64 MB with a larger heap. This can go with a Spark that takes the sorter out when its task ends.
 *
 * serve.py compiles this with Spark's own compiler, Janino: no lambdas, no generics.
 */
public class SorterPlugin implements SparkPlugin {
    private static final Logger LOG = LoggerFactory.getLogger(SorterPlugin.class);

    public DriverPlugin driverPlugin() {
        return null;
    }

    public ExecutorPlugin executorPlugin() {
        return new InExecutor();
    }

    public static class InExecutor implements ExecutorPlugin {
        private Field variables;
        private Field table;
        private Field value;
        private Method removeCollected;

        /** spark-submit opens java.lang to Spark's own code, and to this. An executor works without it as well. */
        public void init(PluginContext context, Map settings) {
            try {
                Field found = Thread.class.getDeclaredField("threadLocals");
                found.setAccessible(true);
                table = found.getType().getDeclaredField("table");
                table.setAccessible(true);
                value = table.getType().getComponentType().getDeclaredField("value");
                value.setAccessible(true);
                removeCollected = found.getType().getDeclaredMethod("expungeStaleEntries", new Class[0]);
                removeCollected.setAccessible(true);
                variables = found;
            } catch (Throwable error) {
                LOG.warn("Sorters of ended tasks stay in memory, as Spark itself has it", error);
            }
        }

        /** Spark calls both in the task's own thread, which runs nothing else meanwhile. */
        public void onTaskSucceeded() {
            removeSorters();
        }

        public void onTaskFailed(TaskFailedReason reason) {
            removeSorters();
        }

        private void removeSorters() {
            if (variables == null) {
                return;
            }
            try {
                Object ofThread = variables.get(Thread.currentThread());
                if (ofThread == null) {
                    return;
                }
                // removing an entry moves others: each is looked at where it stood before
                Object[] entries = (Object[]) ((Object[]) table.get(ofThread)).clone();
                boolean areCollected = false;
                for (int i = 0; i < entries.length; i++) {
                    if (entries[i] != null && value.get(entries[i]) instanceof UnsafeExternalRowSorter) {
                        ThreadLocal variable = (ThreadLocal) ((Reference) entries[i]).get();
                        if (variable == null) {
                            areCollected = true;
                        } else {
                            variable.remove();
                        }
                    }
                }
                if (areCollected) {
                    removeCollected.invoke(ofThread, new Object[0]);
                }
            } catch (Throwable error) {
                variables = null;
                LOG.warn("Sorters of ended tasks stay in memory from now on", error);
            }
        }
    }
}
