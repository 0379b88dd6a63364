//! Connection tracking: what it dropped.

use super::columns::Columns;
use crate::Error;
use crate::namespaces::NetNs;
use crate::proc::read;
use crate::sysctl;

/// Connection tracking of a namespace. Its counters begin again with its module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conntrack {
    /// Connections tracked now; each UDP flow is one.
    pub count: u64,
    /// The most there may be (`net.netfilter.nf_conntrack_max`, of the whole machine); `None`: not shown here.
    pub max: Option<u64>,
    /// Packets dropped because they could not be tracked: the table was full.
    pub drop: u64,
    /// Connections forgotten to make room for others. No packet is lost.
    pub early_drop: u64,
    /// Packets dropped because another of the same connection was just being entered.
    pub insert_failed: u64,
    /// Packets that belong to no connection; dropped only where a rule says so.
    pub invalid: u64,
}

/// Reads the connection tracking of a namespace; `None`: the kernel has none, or its module is not loaded.
///
/// # Errors
/// If the namespace cannot be entered.
pub fn conntrack(ns: &NetNs) -> Result<Option<Conntrack>, Error> {
    let Ok(text) = ns.run(|| read("stat/nf_conntrack"))? else { return Ok(None) };
    let setting = |name| sysctl::find(ns, name).map(|value| value.and_then(|value| value.parse().ok()));
    let (count, max) = (setting("netfilter/nf_conntrack_count")?, setting("netfilter/nf_conntrack_max")?);
    Ok(parse(&text, count, max))
}

fn parse(text: &str, count: Option<u64>, max: Option<u64>) -> Option<Conntrack> {
    let columns = Columns::parse(text);
    Some(Conntrack {
        count: count.or(columns.first("entries"))?,
        max,
        drop: columns.sum("drop")?,
        early_drop: columns.sum("early_drop")?,
        insert_failed: columns.sum("insert_failed")?,
        invalid: columns.sum("invalid")?,
    })
}
