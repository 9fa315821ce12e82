//! Published values of the included studies; none in a build without the feature `studies`.

use carob_lab::published::Print;

/// Published values beside measured ones.
pub(super) fn values() -> Print {
    #[cfg(feature = "studies")]
    return carob_studies::papers::published();
    #[cfg(not(feature = "studies"))]
    Print::default()
}
