//! The included studies and their published values; none in a build without the feature `studies`.

use carob_lab::published::{Print, Study};

/// All studies.
#[cfg(feature = "studies")]
pub(crate) use carob_studies::papers::studies;

#[cfg(not(feature = "studies"))]
pub(crate) fn studies() -> Vec<Study> {
    Vec::new()
}

/// The study with this short name.
pub(super) fn study(short_name: &str) -> Option<Study> {
    studies()
        .into_iter()
        .find(|study| study.short_name == short_name)
}

/// Published values beside measured ones.
pub(super) fn values() -> Print {
    #[cfg(feature = "studies")]
    return carob_studies::papers::published();
    #[cfg(not(feature = "studies"))]
    Print::default()
}
