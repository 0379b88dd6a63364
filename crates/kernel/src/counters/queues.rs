//! Statistics of a card's queues in one form for all drivers (netdev-genl, qstats-get; from 6.10).

use netlink_sys::protocols::NETLINK_GENERIC;
use nix::errno::Errno;

use crate::Error;
use crate::links::Index;
use crate::namespaces::NetNs;
use crate::netlink::{Raw, Requests, attribute, attributes};

/// Counters of one queue; what a driver does not count is `None` (Documentation/netlink/specs/netdev.yaml, qstats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStatistics {
    /// The interface.
    pub interface: Index,
    /// The queue.
    pub queue: u32,
    /// Whether it receives; else it transmits.
    pub receives: bool,
    /// Receiving: packets lost or late because there was no memory for them.
    pub alloc_fail: Option<u64>,
    /// Receiving: packets that the card dropped because the ring was full (`rx-hw-drop-overruns`).
    pub overruns: Option<u64>,
}

/// The queues of all interfaces of a namespace whose driver counts so; `None` where the kernel does not know of it.
///
/// # Errors
/// If the namespace cannot be entered or the kernel's answer cannot be read.
pub fn queues(ns: &NetNs) -> Result<Option<Vec<QueueStatistics>>, Error> {
    let mut socket = ns.run(|| Requests::open(NETLINK_GENERIC))??;
    let Some(family) = family(&mut socket, "netdev")? else { return Ok(None) };
    let scope = attribute(QSTATS_SCOPE, &QSTATS_SCOPE_QUEUE.to_ne_bytes());
    let request = Raw { kind: family, payload: [&[CMD_QSTATS_GET, 1, 0, 0][..], &scope].concat() };
    match socket.list(request, || "list statistics of queues") {
        Ok(answers) => Ok(Some(answers.iter().filter_map(|answer| parse(&answer.payload)).collect())),
        // A kernel with an older family of that name.
        Err(error) if matches!(error.errno(), Some(Errno::EOPNOTSUPP)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The number that generic netlink gave to a family of messages; `None`: the kernel does not have it.
fn family(socket: &mut Requests, name: &str) -> Result<Option<u16>, Error> {
    let zero_ended = [name.as_bytes(), &[0]].concat();
    let payload = [&[CTRL_CMD_GETFAMILY, 1, 0, 0][..], &attribute(CTRL_ATTR_FAMILY_NAME, &zero_ended)].concat();
    let operation = || format!("find the netlink family {name}");
    match socket.get(Raw { kind: GENL_ID_CTRL, payload }, operation) {
        Ok(answer) => attributes(answer.payload.get(GENLMSG..).unwrap_or_default())
            .find(|(kind, _)| *kind == CTRL_ATTR_FAMILY_ID)
            .and_then(|(_, value)| Some(u16::from_ne_bytes(*value.first_chunk()?)))
            .ok_or_else(|| Error::answer(operation(), "the kernel gave no number"))
            .map(Some),
        Err(error) if error.errno() == Some(Errno::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn parse(payload: &[u8]) -> Option<QueueStatistics> {
    let mut statistics = QueueStatistics::default();
    for (kind, value) in attributes(payload.get(GENLMSG..)?) {
        let number = uint(value);
        match kind {
            QSTATS_IFINDEX => statistics.interface = u32::try_from(number?).ok()?,
            QSTATS_QUEUE_TYPE => statistics.receives = number? == 0,
            QSTATS_QUEUE_ID => statistics.queue = u32::try_from(number?).ok()?,
            QSTATS_RX_ALLOC_FAIL => statistics.alloc_fail = number,
            QSTATS_RX_HW_DROP_OVERRUNS => statistics.overruns = number,
            _ => {}
        }
    }
    (statistics.interface != 0).then_some(statistics)
}

/// An attribute of the type `uint`: 4 bytes, or 8 where it must.
fn uint(value: &[u8]) -> Option<u64> {
    match value.len() {
        4 => Some(u32::from_ne_bytes(*value.first_chunk()?).into()),
        8 => Some(u64::from_ne_bytes(*value.first_chunk()?)),
        _ => None,
    }
}

/// Length of `struct genlmsghdr`: command, version, two bytes reserved.
const GENLMSG: usize = 4;
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

// include/uapi/linux/netdev.h
const CMD_QSTATS_GET: u8 = 12;
const QSTATS_IFINDEX: u16 = 1;
const QSTATS_QUEUE_TYPE: u16 = 2;
const QSTATS_QUEUE_ID: u16 = 3;
const QSTATS_SCOPE: u16 = 4;
const QSTATS_SCOPE_QUEUE: u32 = 1;
const QSTATS_RX_ALLOC_FAIL: u16 = 12;
const QSTATS_RX_HW_DROP_OVERRUNS: u16 = 14;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_kernels_write() {
        let attributes = [
            attribute(QSTATS_IFINDEX, &4u32.to_ne_bytes()),
            attribute(QSTATS_QUEUE_TYPE, &0u32.to_ne_bytes()),
            attribute(QSTATS_QUEUE_ID, &1u32.to_ne_bytes()),
            attribute(QSTATS_RX_ALLOC_FAIL, &(1u64 << 40).to_ne_bytes()),
            attribute(QSTATS_RX_HW_DROP_OVERRUNS, &3u32.to_ne_bytes()),
            attribute(99, &[1]),
        ];
        let expected =
            QueueStatistics { interface: 4, queue: 1, receives: true, alloc_fail: Some(1 << 40), overruns: Some(3) };
        assert_eq!(parse(&[vec![0; GENLMSG], attributes.concat()].concat()), Some(expected));
        assert_eq!(parse(&[0; GENLMSG]), None);
    }

    #[test]
    fn a_network_without_cards_has_no_queues() {
        if let Some(queues) = queues(&NetNs::create().unwrap()).unwrap() {
            assert_eq!(queues, []);
        }
        let mut socket = Requests::open(NETLINK_GENERIC).unwrap();
        assert_eq!(family(&mut socket, "nlctrl").unwrap(), Some(GENL_ID_CTRL));
        assert_eq!(family(&mut socket, "no_such").unwrap(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            parse(&bytes);
        }
    }
}
