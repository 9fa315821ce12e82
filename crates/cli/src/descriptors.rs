//! The file descriptors that the command may have.

/// Raises the soft limit on open files to the hard one: shells usually set 1,024, for the sake of
/// programs that use `select`, and a server needs one for each connection.
pub(crate) fn raise_limit() {
    #[cfg(target_os = "linux")]
    {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
            && soft < hard
        {
            // A refusal keeps the soft limit, which the library reads.
            let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
        }
    }
}
