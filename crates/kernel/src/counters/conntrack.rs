//! Connection tracking: what it dropped.

use super::columns::Columns;
use crate::Error;
use crate::namespaces::NetNs;
use crate::proc::NetFile;
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
    /// Packets dropped because another of the same connection was just being entered.
    pub insert_failed: u64,
}

/// Reads the connection tracking of one namespace again and again.
#[derive(Debug)]
pub struct Tracking(NetFile);

impl Tracking {
    /// Opens the counters of `ns`; `None`: the kernel has none, or its module is not loaded.
    ///
    /// # Errors
    /// If the namespace cannot be entered.
    pub fn open(ns: &NetNs) -> Result<Option<Tracking>, Error> {
        Ok(ns.run(|| NetFile::open("stat/nf_conntrack"))?.ok().map(Tracking))
    }

    /// The counters now, without the most there may be; `None`: the module is gone.
    pub fn read(&self) -> Option<Conntrack> {
        parse(&self.0.read().ok()?, None, None)
    }
}

/// Reads the connection tracking of a namespace, with its sysctls; `None`: the kernel has none, or its module is not loaded.
///
/// # Errors
/// If the namespace cannot be entered.
pub fn conntrack(ns: &NetNs) -> Result<Option<Conntrack>, Error> {
    let Some(Ok(text)) = Tracking::open(ns)?.map(|tracking| tracking.0.read()) else { return Ok(None) };
    let setting = |name| sysctl::find(ns, name).map(|value| value.and_then(|value| value.parse().ok()));
    let (count, max) = (setting("netfilter/nf_conntrack_count")?, setting("netfilter/nf_conntrack_max")?);
    Ok(parse(&text, count, max))
}

pub(crate) fn parse(text: &str, count: Option<u64>, max: Option<u64>) -> Option<Conntrack> {
    let columns = Columns::parse(text);
    Some(Conntrack {
        count: count.or(columns.first("entries"))?,
        max,
        drop: columns.sum("drop")?,
        insert_failed: columns.sum("insert_failed")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_kernels_write() {
        let text = "entries  clashres found new invalid ignore delete chainlength insert insert_failed drop \
                    early_drop\n\
                    00000009  0 0 0 0000000a 0 0 0 0 00000001 00000002 00000003\n\
                    00000009  0 0 0 00000001 0 0 0 0 00000004 00000010 00000000\n";
        let expected = Conntrack { count: 9, max: Some(65_536), drop: 18, insert_failed: 5 };
        assert_eq!(parse(text, None, Some(65_536)), Some(expected));
        assert_eq!(parse(text, Some(7), None), Some(Conntrack { count: 7, max: None, ..expected }));
        assert_eq!(parse("entries found\n", Some(7), None), None);
    }

    #[test]
    fn a_new_network_tracks_nothing() {
        if let Some(conntrack) = conntrack(&NetNs::create().unwrap()).unwrap() {
            assert_eq!((conntrack.count, conntrack.drop), (0, 0), "{conntrack:?}");
        }
    }
}
