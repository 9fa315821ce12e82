//! Common code of this crate's tests.

use std::io::Write as _;

/// Returns `None` with a message where a test must not create namespaces and devices.
pub(crate) fn rights() -> Option<()> {
    let report = crate::check();
    if report.can_run() {
        return Some(());
    }
    // Past the test runner, which captures the output of tests. Writing may fail.
    let _ = writeln!(
        std::io::stderr().lock(),
        "skipped: emulated links need the right to make namespaces and TUN devices (root)"
    );
    None
}
