//! Values of the file.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

pub use weir_program::config::{Address, Many as List};

/// `10.0.0.0/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String")]
pub struct Network(pub IpNet);

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        let network: IpNet = network
            .map_err(|_| format!("`{text}`: write a network or an address, e.g. 10.0.0.0/8 or 2001:db8::/32"))?;
        if network.trunc() != network {
            let (all, one) = (network.trunc(), network.addr());
            return Err(format!(
                "`{text}`: an address behind which a prefix stands (write {all} for all, {one} for one)"
            ));
        }
        Ok(Self(network))
    }
}
