//! Networks: the [link](crate::link), and the [mesh](crate::mesh).

pub(crate) mod link;
pub(crate) mod mesh;
