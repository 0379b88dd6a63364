//! Bulk transfers: as many bytes as the path takes, for a window.

mod report;

pub use report::{BulkReport, Datagrams, Sample};
