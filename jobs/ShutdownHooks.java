package tidegate;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ExecutorService;

/**
 * Lets a server's memory go of the thread pools of Iceberg's rewrites, once they have ended.
 *
 * Each rewrite of files makes pools by Guava's MoreExecutors.getExitingExecutorService, which registers a shutdown hook
 * for each and never removes it. A hook is a thread that has not begun, and a thread keeps what its maker's thread
 * passes on: Spark's session. So each compaction left a session in memory for as long as the JVM lives.
 *
 * The hooks of ended pools have nothing to do. The JVM has no public list of hooks; spark-submit opens java.lang to
 * Spark's own code, and to this.
 *
 * serve.py compiles this with Spark's own compiler, Janino: no lambdas, no generics.
 */
public class ShutdownHooks {
    private static final String OF_POOLS = "DelayedShutdownHook-for-";

    /** Removes the hooks of pools that have ended; how many they were. Hooks of others, and of live pools, stay. */
    public static int removeEnded() throws Exception {
        Class all = Class.forName("java.lang.ApplicationShutdownHooks");
        int removed = 0;
        synchronized (all) { // as the JVM does when one is added
            Map hooks = (Map) read(all, null, "hooks");
            if (hooks == null) { // they run already
                return 0;
            }
            Iterator threads = new ArrayList(hooks.keySet()).iterator();
            while (threads.hasNext()) {
                Thread hook = (Thread) threads.next();
                if (hook.getName().startsWith(OF_POOLS) && hasEnded(hook)
                        && Runtime.getRuntime().removeShutdownHook(hook)) {
                    removed++;
                }
            }
        }
        return removed;
    }

    private static boolean hasEnded(Thread hook) throws Exception {
        Object task = findTask(hook);
        if (task == null) {
            return false;
        }
        Field[] fields = task.getClass().getDeclaredFields();
        for (int i = 0; i < fields.length; i++) {
            fields[i].setAccessible(true);
            Object value = fields[i].get(task);
            if (value instanceof ExecutorService) {
                return ((ExecutorService) value).isTerminated();
            }
        }
        return false;
    }

    /** What a thread is to run: Java 19 moved it. */
    private static Object findTask(Thread hook) throws Exception {
        try {
            return read(Thread.class, hook, "target");
        } catch (NoSuchFieldException error) {
            Object holder = read(Thread.class, hook, "holder");
            return read(holder.getClass(), holder, "task");
        }
    }

    private static Object read(Class owner, Object from, String name) throws Exception {
        Field field = owner.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(from);
    }
}
