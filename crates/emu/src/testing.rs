//! What tests of this crate share.

use std::io::Write as _;

/// Returns `None` and says so where a test must not make namespaces and devices.
pub(crate) fn rights() -> Option<()> {
    let report = crate::check();
    if report.can_run() {
        return Some(());
    }
    // Past the test runner, which keeps what tests print. Nobody may be listening.
    let _ = writeln!(
        std::io::stderr().lock(),
        "skipped: emulated links need the right to make namespaces and TUN devices (root)"
    );
    None
}
