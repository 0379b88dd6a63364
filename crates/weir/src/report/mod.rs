//! From measured cells to files: `results.csv`, `summary.xlsx`, `charts/*.svg`, `report.html`.
//!
//! [`record`] is what a room hands over; everything else here renders it. A result directory holds its records
//! (`manifest.json`, `cells.jsonl`), so that it can be rendered again without running anything.

pub mod cells;
pub mod claims;
pub mod columns;
pub mod csv;
pub mod format;
pub mod record;
pub mod store;

#[cfg(test)]
mod fixture;
