//! Hosts, routers and switches, with their addresses.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use toml::Value;

/// An end system.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Addresses with prefix length; traffic goes to the first. By link: `{ access = ["10.0.1.2/24"], control =
    /// ["10.0.9.2/24"] }`.
    pub addresses: Addresses,
    /// Shell lines to run before any traffic: firewall rules, routes, sysctls.
    #[serde(default)]
    pub setup: Vec<String>,
    /// CPU (modulo their number) for its packets (RPS, root only) and its ends of messages. Default: any.
    pub processor: Option<usize>,
}

/// Addresses of a node's interfaces.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(try_from = "Value", untagged)]
pub enum Addresses {
    /// Those of a node's only interface.
    Only(Vec<IpNet>),
    /// By the name of the interface's link.
    ByLink(BTreeMap<String, Vec<IpNet>>),
}

/// A namespace that forwards IP packets between its interfaces. Weir computes routes to every network (shortest path,
/// then by name), on hosts too.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Router {
    /// Addresses with prefix length, by link. A route passes at most 63 routers.
    pub addresses: Addresses,
    /// As [`Host::setup`].
    #[serde(default)]
    pub setup: Vec<String>,
}

impl TryFrom<Value> for Addresses {
    type Error = String;

    fn try_from(value: Value) -> Result<Addresses, String> {
        match value {
            Value::Table(links) => {
                let by_link = links.into_iter().map(|(link, value)| Ok((link, list(value)?)));
                by_link.collect::<Result<_, String>>().map(Addresses::ByLink)
            }
            value => list(value).map(Addresses::Only),
        }
    }
}

/// Addresses with prefix length.
fn list(value: Value) -> Result<Vec<IpNet>, String> {
    let Value::Array(addresses) = value else {
        return Err(format!("{value}: expected a list of addresses, [\"10.0.0.1/24\"], or such lists by link"));
    };
    let address = |value: &Value| {
        let text = value.as_str().ok_or_else(|| format!("{value}: not an address with prefix length, 10.0.0.1/24"))?;
        text.parse().map_err(|_| match text.parse::<IpAddr>() {
            Ok(IpAddr::V4(_)) => format!("`{text}`: an address needs its prefix length, e.g. {text}/24"),
            Ok(IpAddr::V6(_)) => format!("`{text}`: an address needs its prefix length, e.g. {text}/64"),
            Err(_) => format!("`{text}`: not an address with prefix length, e.g. 10.0.0.1/24"),
        })
    };
    addresses.iter().map(address).collect()
}

/// A learning bridge, with IGMP and MLD snooping and a querier.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_an_address_is_said() {
        let said =
            ["[\"10.0.0.1\"]", "[\"fd00::1\"]", "[\"10.0.0/24\"]", "[7]", "\"10.0.0.1/24\"", "{ l = \"10.0.0.1/24\" }"]
                .map(|text| toml::from_str::<Host>(&format!("addresses = {text}")).unwrap_err().message().to_owned());
        assert_eq!(
            said,
            [
                "`10.0.0.1`: an address needs its prefix length, e.g. 10.0.0.1/24",
                "`fd00::1`: an address needs its prefix length, e.g. fd00::1/64",
                "`10.0.0/24`: not an address with prefix length, e.g. 10.0.0.1/24",
                "7: not an address with prefix length, 10.0.0.1/24",
                "\"10.0.0.1/24\": expected a list of addresses, [\"10.0.0.1/24\"], or such lists by link",
                "\"10.0.0.1/24\": expected a list of addresses, [\"10.0.0.1/24\"], or such lists by link",
            ]
        );
        assert!(toml::from_str::<Router>("addresses = { l = [\"10.0.0.1/24\"] }").is_ok());
    }
}
