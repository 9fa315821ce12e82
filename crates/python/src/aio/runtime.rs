//! Calls into Python by threads of the stack. They end before the interpreter does.
//!
//! CPython unwinds a thread that waits for the interpreter while that ends, also through the frames of Rust, which can
//! crash the process.

use std::pin::Pin;
use std::sync::{PoisonError, RwLock};

use pyo3::prelude::*;
use pyo3_async_runtimes::TaskLocals;
use pyo3_async_runtimes::generic::{self, ContextExt};
use pyo3_async_runtimes::tokio::get_runtime;
use tokio::task::{JoinError, JoinHandle};

/// True after the interpreter began to shut down. A call into Python holds it for reading.
static ENDED: RwLock<bool> = RwLock::new(false);

/// Calls a function with the interpreter, unless the program has ended. For threads without the interpreter.
pub(super) fn attached<T>(call: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    unless_ended(|| Python::attach(call))
}

fn unless_ended<T>(call: impl FnOnce() -> T) -> Option<T> {
    let ended = ENDED.read().unwrap_or_else(PoisonError::into_inner);
    (!*ended).then(call)
}

/// Makes the interpreter wait for calls in progress before it shuts down, and rejects new ones.
pub(crate) fn end_with_interpreter(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let end = wrap_pyfunction!(end, module)?;
    let exits = module.py().import("atexit")?;
    exits.call_method1("register", (end,)).map(drop)
}

#[pyfunction]
fn end(py: Python<'_>) {
    py.detach(|| *ENDED.write().unwrap_or_else(PoisonError::into_inner) = true);
}

/// Returns an awaitable with the result of a future of the stack.
pub(super) fn future_into_py<T>(
    py: Python<'_>,
    future: impl Future<Output = PyResult<T>> + Send + 'static,
) -> PyResult<Bound<'_, PyAny>>
where
    T: for<'py> IntoPyObject<'py> + Send + 'static,
{
    generic::future_into_py::<Workers, _, T>(py, future)
}

/// The threads of tokio.
struct Workers;

impl generic::Runtime for Workers {
    type JoinError = JoinError;
    type JoinHandle = JoinHandle<()>;

    fn spawn<F: Future<Output = ()> + Send + 'static>(future: F) -> Self::JoinHandle {
        get_runtime().spawn(future)
    }

    /// Runs the closure that delivers a result.
    fn spawn_blocking<F: FnOnce() + Send + 'static>(deliver: F) -> Self::JoinHandle {
        get_runtime().spawn_blocking(|| {
            unless_ended(deliver);
        })
    }
}

/// Futures of the stack need no event loop: awaitables are created inside a running one.
impl ContextExt for Workers {
    fn scope<F, R>(_: TaskLocals, future: F) -> Pin<Box<dyn Future<Output = R> + Send>>
    where
        F: Future<Output = R> + Send + 'static,
    {
        Box::pin(future)
    }

    fn get_task_locals() -> Option<TaskLocals> {
        None
    }
}
