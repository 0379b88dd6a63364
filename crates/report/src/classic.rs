//! `classic.csv`: the table that scripts around iperf3 are written for.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use weir_units::format::plain;

use crate::cells::Cell;
use crate::grid::{Grid, MATRIX};
use crate::record::Manifest;
use crate::store::{self, StoreError};

/// The header, as those scripts have it: loss in percent, latency in ms, drops in segments or datagrams.
const HEADER: [&str; 5] = ["LOSS", "LATENCY", "VALUE", "UNIT", "DROPS"];
/// As iperf3 writes it.
const UNIT: &str = "Mbits/sec";

/// Writes the table of a run over loss and latency: `classic.csv`, or one such file for each combination of further
/// axes (`classic-bbr.csv`). A run without both has none.
///
/// A line a cell, by loss and latency: the mean over the repeats of the throughput, and of the segments sent again over
/// TCP or of the datagrams lost over UDP (empty where neither is known). The table knows no cells that are not valid:
/// theirs are the values as they were measured.
///
/// # Errors
/// A file cannot be written.
pub fn write(dir: &Path, manifest: &Manifest, cells: &[Cell<'_>]) -> Result<Vec<PathBuf>, StoreError> {
    let [down, across, _] = MATRIX;
    let mut grids = Grid::matrix(cells);
    if grids.is_empty() && has_axes(manifest) {
        grids = Grid::all(cells, down, across);
    }
    let mut written = Vec::new();
    for (index, grid) in grids.iter().enumerate() {
        let name = match grid.values.as_str() {
            "" => "classic.csv".to_owned(),
            name => format!("classic-{}.csv", super::file_name(name, index)),
        };
        let path = dir.join(name);
        store::replace(&path, |out| render(out, grid))?;
        written.push(path);
    }
    Ok(written)
}

/// Whether both were asked for, even if with one value.
fn has_axes(manifest: &Manifest) -> bool {
    let has =
        |words: &[&str]| manifest.axes.iter().any(|(key, _)| words.contains(&key.rsplit('.').next().unwrap_or(key)));
    has(&["loss"]) && has(&["latency", "delay"])
}

fn render(out: &mut dyn Write, grid: &Grid<'_>) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(HEADER)?;
    for (row, column, cell) in grid.iter() {
        let value = cell.measured(MATRIX[2]).map(|m| plain(m.value())).unwrap_or_default();
        let drops = drops(cell).map(|drops| plain(drops.round())).unwrap_or_default();
        writer.write_record([&grid.rows[row].text, &grid.columns[column].text, &value, UNIT, &drops])?;
    }
    writer.flush()
}

fn drops(cell: &Cell<'_>) -> Option<f64> {
    if let Some(resent) = cell.measured("retransmits") {
        return Some(resent.value());
    }
    let [sent, delivered] = ["sent", "delivered"].map(|column| cell.measured(column).map(|m| m.value()));
    let transport = cell.first().row.transport.as_str();
    let datagrams = transport == "udp" || transport.contains("datagram");
    if datagrams { Some((sent? - delivered?).max(0.0)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Row;
    use crate::{cells, fixture};

    fn lines(path: &Path) -> Vec<String> {
        std::fs::read_to_string(path).unwrap().lines().map(String::from).collect()
    }

    #[test]
    fn one_line_a_cell_in_the_order_of_the_axes() {
        let dir = tempfile::tempdir().unwrap();
        let mut records = fixture::matrix_records();
        records[0].row.mbit_per_s = 912.5;
        records[0].estimates.clear();
        records.reverse();
        let written = write(dir.path(), &fixture::matrix_manifest(), &cells::group(&records)).unwrap();
        assert_eq!(written, [dir.path().join("classic.csv")]);
        let lines = lines(&written[0]);
        assert_eq!(lines.len(), 267, "the baseline is not in it");
        assert_eq!(lines[..2], ["LOSS,LATENCY,VALUE,UNIT,DROPS", "0,1,912.5,Mbits/sec,0"]);
        assert_eq!(lines[266], "50,100,0,Mbits/sec,0");
    }

    #[test]
    fn further_axes_get_files_of_their_own_and_datagrams_are_lost() {
        let dir = tempfile::tempdir().unwrap();
        let mut records = fixture::matrix_records();
        let mut datagrams = records.clone();
        for (transport, records) in [("tcp", &mut records), ("udp", &mut datagrams)] {
            for record in records {
                record.row.cell += transport;
                record.row.transport = transport.into();
                record.axes.push(("traffic.transport".into(), transport.into()));
            }
        }
        for record in &mut datagrams {
            record.row = Row { sent: 100, delivered: 93, retransmits: None, ..record.row.clone() };
        }
        records.append(&mut datagrams);
        let written = write(dir.path(), &fixture::matrix_manifest(), &cells::group(&records)).unwrap();
        assert_eq!(written, [dir.path().join("classic-tcp.csv"), dir.path().join("classic-udp.csv")]);
        assert!(lines(&written[1]).iter().skip(1).all(|line| line.ends_with(",Mbits/sec,7")));
        assert!(write(dir.path(), &fixture::manifest(), &cells::group(&fixture::records())).unwrap().is_empty());
    }
}
