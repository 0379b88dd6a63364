//! Steps of action: what each needs, and what they need together.

use anyhow::Result;
use ipnet::IpNet;
use weir_units::{BitRate, Span};

use super::document::{self, Kind};
use super::values::Dscp;
use crate::model::Action;
use crate::settings::{Caps, Level, Speaker};

/// One step of action, with what it needs and nothing else.
pub(super) fn level_of(
    written: &document::Level,
    first: bool,
    caps: &Caps,
    fail: &dyn Fn(&str, &str) -> anyhow::Error,
) -> Result<Level> {
    let strays = [
        ("rate", written.rate.is_some(), Kind::Limit),
        ("dscp", written.dscp.is_some(), Kind::Mark),
        ("to", written.to.is_some(), Kind::Redirect),
    ];
    if let Some((key, ..)) = strays.iter().find(|(_, given, kind)| *given && *kind != written.action) {
        return Err(fail(key, &format!("{key}: it is of another action (leave it out)")));
    }
    let need = |key: &str, example: &str| fail(key, &format!("{key} is missing: write e.g. {key} = {example}"));
    let action = match written.action {
        Kind::Drop => Action::Drop,
        Kind::Blackhole => Action::Blackhole,
        Kind::Limit => {
            let BitRate { bits_per_second } = written.rate.ok_or_else(|| need("rate", "\"10mbit\""))?;
            if bits_per_second < 8 {
                return Err(fail("rate", "rate: nothing would pass: write e.g. \"10mbit\", or action = \"drop\""));
            }
            Action::Limit { bytes_per_s: bits_per_second as f32 / 8.0 }
        }
        Kind::Mark => {
            let Dscp(dscp) = written.dscp.ok_or_else(|| need("dscp", "\"cs1\""))?;
            Action::Mark { dscp }
        }
        Kind::Redirect => {
            let to = written.to.ok_or_else(|| need("to", "\"65000:100\""))?;
            Action::Redirect { asn: to.asn, number: to.number }
        }
    };
    let after = written.after.unwrap_or_default();
    if first && after.nanos > 0 {
        return Err(fail("after", "after: the first step is taken at once (leave it out)"));
    }
    if !first && after < Span::from_secs(1) {
        let what = "after: write how long the step before may go on without helping, \"1s\" or more, e.g. \"30s\"";
        return Err(fail("after", what));
    }
    Ok(Level { action, after: after.duration(), harm: written.harm.map_or(caps.harm, |share| share.fraction()) })
}

/// A blackhole needs a next hop of each family that it is for.
pub(super) fn hops(networks: &[IpNet], speaker: Option<&Speaker>) -> Result<(), String> {
    let Some(speaker) = speaker else { return Ok(()) };
    for (v4, hop, key, example) in
        [(true, speaker.next_hop, "next_hop", "192.0.2.1"), (false, speaker.next_hop_v6, "next_hop_v6", "100::1")]
    {
        if hop.is_none() && networks.iter().any(|net| net.addr().is_ipv4() == v4) {
            return Err(format!(
                "action: a blackhole needs a next hop that routers discard: write {key} = \"{example}\" in [protect.speaker]"
            ));
        }
    }
    Ok(())
}
