//! The lab as people and programs meet it.

mod captures;
mod compare;
mod emulated;
pub(crate) mod folder;
mod new;
mod next;
mod notifications;
mod reproduce;
mod run;
mod show;
pub(crate) mod study;
mod sweep;
mod tcp;
mod wireless;
mod wrong;
