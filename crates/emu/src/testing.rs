//! What tests of this crate share.

/// Nothing, if a test may make namespaces and devices; else it says so, loudly.
pub(crate) fn rights() -> Option<()> {
    let report = crate::check();
    if report.can_run() {
        return Some(());
    }
    eprintln!("SKIPPED, for want of rights:\n{report}");
    None
}
