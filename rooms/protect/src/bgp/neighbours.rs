//! Neighbours of gobgpd: those that it is to have, and how they are.

use std::collections::HashSet;
use std::net::IpAddr;

use prost::Message;
use ring::digest::{SHA256, digest};

use super::gobgp::messages::{
    AfiSafi, AfiSafiConfig, EbgpMultihop, GracefulRestart, MpGracefulRestart, MpGracefulRestartConfig, Peer, PeerConf,
    Timers, TimersConfig, Transport,
};
use super::wire::Family;
use super::{Instance, Neighbour, NeighbourState};

/// What gobgpd is asked for. By the description it is known again: whose it is, and whether it is as it would be asked for now.
pub(super) fn peer(neighbour: &Neighbour, instance: Instance) -> Peer {
    let mut peer = described(neighbour);
    let state = digest(&SHA256, &peer.encode_to_vec());
    let state: String = state.as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    if let Some(conf) = &mut peer.conf {
        conf.description = format!("{}{state}", prefix(instance));
    }
    peer
}

/// With what the descriptions begin of those that this Weir has added.
fn prefix(instance: Instance) -> String {
    format!("added by weir {instance}, as ")
}

/// What is to be done so that it has those that it is to have.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Change {
    /// Ours, and no longer asked for, or otherwise.
    pub(super) deleted: Vec<IpAddr>,
    pub(super) added: Vec<Peer>,
}

impl Change {
    /// Those that we have not added stay as they are.
    pub(super) fn new(there: &[Peer], wanted: &[Neighbour], instance: Instance) -> Self {
        let wanted: Vec<(IpAddr, Peer)> =
            wanted.iter().map(|neighbour| (neighbour.address, peer(neighbour, instance))).collect();
        let description = |peer: &Peer| peer.conf.as_ref().map(|conf| conf.description.clone()).unwrap_or_default();
        let (own, mut change, mut kept) = (prefix(instance), Self::default(), HashSet::new());
        for peer in there {
            let Some(NeighbourState { address, .. }) = state(peer) else { continue };
            let (is_own, found) = (description(peer).starts_with(&own), wanted.iter().find(|(to, _)| *to == address));
            if is_own && found.is_none_or(|(_, wanted)| description(wanted) != description(peer)) {
                change.deleted.push(address);
            } else {
                kept.insert(address);
            }
        }
        change.added =
            wanted.into_iter().filter(|(address, _)| !kept.contains(address)).map(|(_, peer)| peer).collect();
        change
    }
}

fn described(neighbour: &Neighbour) -> Peer {
    let keeps = !neighbour.restart_time.is_zero();
    let hold_time = neighbour.hold_time.as_secs();
    let afi_safi = |family: Family| AfiSafi {
        mp_graceful_restart: Some(MpGracefulRestart { config: Some(MpGracefulRestartConfig { enabled: keeps }) }),
        config: Some(AfiSafiConfig { family: Some(family.into()), enabled: true }),
    };
    Peer {
        conf: Some(PeerConf {
            auth_password: neighbour.password.as_ref().map(|password| password.0.clone()).unwrap_or_default(),
            description: String::new(),
            neighbor_address: neighbour.address.to_string(),
            peer_asn: neighbour.asn,
        }),
        ebgp_multihop: neighbour.multihop.map(|ttl| EbgpMultihop { enabled: true, multihop_ttl: ttl.into() }),
        state: None,
        timers: Some(Timers {
            config: Some(TimersConfig {
                connect_retry: CONNECT_RETRY,
                hold_time,
                keepalive_interval: hold_time / 3,
                idle_hold_time_after_reset: IDLE_HOLD_TIME,
            }),
        }),
        transport: Some(Transport {
            local_address: neighbour.local_address.map(|address| address.to_string()).unwrap_or_default(),
            remote_port: neighbour.port.into(),
        }),
        // It may have had this neighbour before it was restarted, and its routes are back: `restarting` sets the bits by which
        // the neighbour keeps what it has (RFC 4724, section 3) until the routes have come, once more, and End-of-RIB after
        // them. Without them it would drop everything at the OPEN.
        graceful_restart: keeps.then(|| GracefulRestart {
            enabled: true,
            restart_time: u32::try_from(neighbour.restart_time.as_secs()).unwrap_or(u32::MAX).min(LONGEST_RESTART),
            deferral_time: DEFERRAL,
            local_restarting: true,
        }),
        afi_safis: Family::ALL.map(afi_safi).to_vec(),
    }
}

/// How one is; `None`: the answer names no address.
pub(super) fn state(peer: &Peer) -> Option<NeighbourState> {
    let (conf, state) = (peer.conf.as_ref(), peer.state.as_ref());
    let addresses = [conf.map(|conf| &conf.neighbor_address), state.map(|state| &state.neighbor_address)];
    let address = addresses.into_iter().flatten().find_map(|address| address.parse().ok())?;
    let asns = [conf.map(|conf| conf.peer_asn), state.map(|state| state.peer_asn)];
    let asn = asns.into_iter().flatten().find(|&asn| asn != 0).unwrap_or(0);
    let number = state.and_then(|state| usize::try_from(state.session_state).ok()).unwrap_or(0);
    Some(NeighbourState { address, asn, state: STATES.get(number).unwrap_or(&STATES[0]) })
}

/// Enters what is heard of one.
pub(super) fn enter(list: &mut Vec<NeighbourState>, heard: NeighbourState) {
    match list.binary_search_by_key(&heard.address, |known| known.address) {
        Ok(at) => list[at] = heard,
        Err(at) if list.len() < MOST => list.insert(at, heard),
        Err(_) => {}
    }
}

const STATES: [&str; 7] = ["unknown", "idle", "connect", "active", "opensent", "openconfirm", "established"];

/// Neighbours that are shown.
pub(super) const MOST: usize = 1000;

// Seconds.
const CONNECT_RETRY: u64 = 5;
const IDLE_HOLD_TIME: u64 = 5;
/// How long gobgpd lets a neighbour wait for routes, at most, when another has not yet said its own are complete.
const DEFERRAL: u32 = 3;
/// RFC 4724: 12 bits.
const LONGEST_RESTART: u32 = 4095;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_of_ours_are_as_they_are_asked_for_and_others_stay() {
        let neighbour = |host: u8| Neighbour::new([192, 0, 2, host].into(), 65002);
        let (ours, another) = (Instance(7), Instance(8));
        let wanted = [neighbour(1), neighbour(2), neighbour(3), neighbour(4)];
        let mut changed = neighbour(2);
        changed.hold_time *= 2;
        let there = [
            peer(&neighbour(1), ours),
            peer(&changed, ours),
            // Another Weir's, and one of gobgpd's own file.
            peer(&changed, another),
            peer(&Neighbour { address: [192, 0, 2, 3].into(), ..changed.clone() }, another),
            described(&neighbour(8)),
            peer(&neighbour(9), ours),
        ];
        let change = Change::new(&[&there[..2], &there[3..]].concat(), &wanted, ours);
        let address = |host: u8| IpAddr::from([192, 0, 2, host]);
        assert_eq!(change.deleted, [address(2), address(9)]);
        assert_eq!(change.added, [peer(&neighbour(2), ours), peer(&neighbour(4), ours)]);
        let now: Vec<Peer> = wanted.iter().map(|neighbour| peer(neighbour, ours)).collect();
        assert_eq!(Change::new(&now, &wanted, ours), Change::default());
        assert_eq!(Change::new(&now, &[], another), Change::default());
    }
}
