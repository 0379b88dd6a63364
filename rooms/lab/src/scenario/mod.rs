//! The scenario document: the network, the traffic, and the charts of the result.
//!
//! Each table is its own type: [`Run`], [`Host`] and the other nodes, [`Link`] with its
//! [`LinkDirection`]s, [`Traffic`]. [`super::topology`] and [`super::cell::check`] check their values.

mod impairments;
mod links;
mod nodes;
mod programs;
mod run;
#[cfg(test)]
mod tests;
mod traffic;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use include_dir::{Dir, include_dir};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

pub use self::impairments::{Loss, LossKeys, Order, Queue, Reorder, Variation};
pub use self::links::{Link, LinkDirection, PathImpairments, Step};
pub use self::nodes::{Addresses, Host, Router, Switch};
pub use self::programs::{Column, Poll, Program};
pub use self::run::{Jobs, Run, Tracing};
pub use self::traffic::{
    Arrivals, Engine, Mode, OnOff, Quic, ReaderStall, Receive, ReceiveBuffer, Receivers, SizeShare, Tcp, Traffic,
};
use weir_program::config::did_you_mean;
use weir_report::record::{Chart, Claim, OwnColumn, Published};
use weir_report::store;
use weir_traffic::Transport;

use crate::traces::{Replayed, Traces};

/// One cell of a scenario: the document without its axes, with every value set.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name of the run, its directory and its shell.
    pub name: String,
    /// Title of the report: one line.
    pub title: String,
    /// What is measured and how: paragraphs for the report.
    #[serde(default)]
    pub description: String,
    /// Keys and their values to sweep: a list, or `{ from, to, step }`. Every combination is a cell.
    #[serde(default)]
    pub axes: toml::Table,
    /// Settings of the run.
    #[serde(default)]
    pub run: Run,
    /// End systems by name.
    pub hosts: BTreeMap<String, Host>,
    /// Routers by name: the kernel forwards.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub routers: BTreeMap<String, Router>,
    /// Learning bridges by name, with IGMP and MLD snooping and a querier.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub switches: BTreeMap<String, Switch>,
    /// Emulated links by name, in the order of their random sequences.
    pub links: BTreeMap<String, Link>,
    /// Impairments of the whole route from the sender to the receiver.
    #[serde(default)]
    pub path: PathImpairments,
    /// What is sent and measured.
    pub traffic: Traffic,
    /// Programs that run on hosts, named for use in columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<Program>,
    /// Values for programs, as `{NAME}`; axes are `parameters.NAME`.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    pub parameters: toml::Table,
    /// Columns that the scenario defines.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub columns: IndexMap<String, Column>,
    /// A bulk transfer next to the traffic; `warmup` is its head start, `streams = 0` none.
    #[serde(default)]
    pub load: Option<Traffic>,
    /// How datagrams are received.
    #[serde(default)]
    pub receive: Receive,
    /// TCP settings of the hosts and of all TCP traffic.
    #[serde(default)]
    pub tcp: Tcp,
    /// Settings of all QUIC traffic.
    #[serde(default)]
    pub quic: Quic,
    /// Cells in addition to those of the axes.
    #[serde(default)]
    pub cells: Vec<ExtraCell>,
    /// Charts of the report.
    #[serde(default)]
    pub charts: Vec<Chart>,
    /// Published values to show in them.
    #[serde(default)]
    pub published: Option<Published>,
    /// Published statements to judge.
    #[serde(default)]
    pub claims: Vec<Claim>,
    /// Claims that fail the run unless they hold.
    #[serde(default, rename = "assert")]
    pub asserts: Vec<Claim>,
    /// Where relative paths of traces start. Default: that of the file.
    pub directory: Option<PathBuf>,
    /// The traces of the links, read when the sweep was created.
    #[serde(skip)]
    pub traces: Traces,
    /// The capture of `traffic.replay`, read at the same time.
    #[serde(skip)]
    pub replayed: Replayed,
}

/// An extra cell: the document with some keys set, and the first value of every other axis.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ExtraCell {
    /// The cell's name.
    pub name: String,
    /// Keys to set. Other axes have their first value.
    #[serde(default)]
    pub set: toml::Table,
}

impl Scenario {
    /// Identifies what a cell measures: all settings except presentation and the number of parallel cells.
    pub fn fingerprint(&self) -> String {
        let mut measured = toml::Table::try_from(self).unwrap_or_default();
        measured.retain(|key, _| !TOLD.contains(&key));
        if let Some(run) = measured.get_mut("run").and_then(toml::Value::as_table_mut) {
            run.retain(|key, _| !["repeat", "jobs", "reruns", "control"].contains(&key));
        }
        format!("{:016x}", store::checksum(measured.to_string().as_bytes()))
    }

    /// Its columns for the report.
    pub fn own_columns(&self) -> Vec<OwnColumn> {
        self.columns.iter().map(|(name, column)| column.own(name)).collect()
    }

    /// Whether a key applies to the traffic: keys of TCP or QUIC may not, all others do.
    pub(crate) fn uses(&self, key: &str) -> bool {
        let sent = |by: &dyn Fn(Transport) -> bool| {
            by(self.traffic.transport) || self.load.as_ref().is_some_and(|load| load.streams > 0 && by(load.transport))
        };
        match key.split_once('.') {
            Some(("tcp", _)) => sent(&|transport| transport == Transport::Tcp),
            Some(("quic", _)) => sent(&|transport| matches!(transport, Transport::Quic | Transport::QuicDatagram)),
            _ => true,
        }
    }

    /// Gives the default queue to each direction that has a rate or a trace, at any time, and no queue.
    pub(crate) fn bound_queues(&mut self) {
        for link in self.links.values_mut() {
            let [forward, backward] = link.directions();
            for (own, whole) in [(&mut link.forward, forward), (&mut link.backward, backward)] {
                own.queue = whole.default_queue().or(own.queue);
            }
        }
    }

    /// The text of a scenario by file path or built-in name, and its name in errors.
    pub fn find(name: &str) -> Result<(String, String)> {
        let path = Path::new(name);
        if path.extension().is_some() || path.components().count() > 1 {
            let text = std::fs::read_to_string(path).with_context(|| format!("read scenario {name}"))?;
            return Ok((name.to_owned(), text));
        }
        match Scenario::of_name(name) {
            Ok(text) => Ok((format!("{name}.toml"), text.to_owned())),
            Err(error) => {
                let near = did_you_mean(name, Scenario::shipped().map(|(name, _)| name));
                bail!("{error}, or write the path of a file (./{name}.toml){near}")
            }
        }
    }

    /// The text of a built-in scenario.
    pub fn of_name(name: &str) -> Result<&'static str> {
        let file = SHIPPED.get_file(format!("{name}.toml")).and_then(|file| file.contents_utf8());
        file.with_context(|| {
            let names = Scenario::shipped().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
            format!("no scenario `{name}`: there are {names}")
        })
    }

    /// Name and text of every built-in scenario, by name.
    pub fn shipped() -> impl Iterator<Item = (&'static str, &'static str)> {
        SHIPPED.files().filter_map(|file| Some((file.path().file_stem()?.to_str()?, file.contents_utf8()?)))
    }
}

/// Keys about the presentation of cells, which do not change what is measured.
const TOLD: [&str; 9] =
    ["title", "description", "axes", "cells", "charts", "claims", "assert", "published", "directory"];

static SHIPPED: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../scenarios");
