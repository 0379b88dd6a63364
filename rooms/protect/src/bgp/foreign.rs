//! What fuzz targets and properties need of this module: what gobgpd answers is read by nobody else.

use prost::Message;

use super::gobgp::messages::{ListPathResponse, ListPeerResponse};
use super::gobgp::{Local, neighbour};
use super::wire::Family;

/// Reads any bytes as answers of gobgpd.
pub fn read(bytes: &[u8]) {
    if let Ok(answer) = ListPathResponse::decode(bytes) {
        let paths = answer.destination.map(|destination| destination.paths).unwrap_or_default();
        for path in paths {
            for family in Family::ALL {
                if let Some(local) = Local::read(family, path.clone()) {
                    local.key.prefix();
                    local.attributes.encode(family);
                }
            }
        }
    }
    if let Ok(answer) = ListPeerResponse::decode(bytes) {
        answer.peer.as_ref().and_then(neighbour);
    }
}
