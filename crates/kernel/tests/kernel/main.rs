//! What the kernel is asked and does, in namespaces of the tests' own.

#![allow(clippy::unwrap_used)]

mod bridges;
mod capture;
mod links;
mod rules;
