//! The lab: an emulated network on one machine, traffic through it, and a report.
//!
//! A [`scenario`] is a TOML document. The [`sweep`] lays its axes out into cells, each a scenario of its own; a cell's
//! hosts, routers, switches and links are checked and routed in [`topology`], become namespaces and veth pairs in
//! [`network`], and carry traffic between [`endpoints`] in a [`cell`]: our own, or that of [`iperf3`]. The [`account`]
//! of all packets turns into a record for `report`. The [`runner`] drives cells in parallel and may [`capture`]
//! one of them, [`programs`] runs what a scenario names on its hosts, [`watch`] looks at buffers and processors meanwhile, the [`machine`] is watched for standstills; [`shell`]
//! brings one network up to be entered by hand. [`charts`] are drawn where a scenario asks for none.
//!
//! ```no_run
//! use weir_lab::runner::{self, Plan};
//! use weir_lab::scenario::Scenario;
//! use weir_lab::sweep::Sweep;
//!
//! # fn main() -> anyhow::Result<()> {
//! // A scenario that ships, with two of its keys changed.
//! let (origin, text) = Scenario::find("telemetry")?;
//! let set = [("path.loss", "0%,20%"), ("run.duration", "10s")].map(|(key, value)| (key.into(), value.into()));
//! let sweep = Sweep::new(&origin, &text, &set)?;
//! // Makes namespaces: as root, or where user namespaces are permitted.
//! let fails = runner::run(&Plan::new(sweep, Some("result".into()), Vec::new())?)?;
//! println!("result/report.html: {}", if fails { "an assertion fails" } else { "all assertions hold" });
//! # Ok(())
//! # }
//! ```

pub mod account;
pub mod arrivals;
pub mod capture;
pub mod cell;
pub mod charts;
pub mod columns;
pub mod endpoints;
pub mod environment;
#[doc(hidden)]
pub mod foreign;
pub mod iperf3;
pub mod machine;
pub mod messages;
pub mod network;
pub mod programs;
pub mod runner;
pub mod scenario;
pub mod shell;
pub mod sweep;
pub mod topology;
pub mod traces;
pub mod validity;
pub mod watch;
