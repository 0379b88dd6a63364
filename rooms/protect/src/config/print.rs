//! Settings as the table that says the same.

use std::time::Duration;

use weir_units::{BitRate, Share, Span};

use super::check::{FALSE_ALARMS, frequency};
use super::document::{Allow, Caps, Document, Group, Kind, Level, Speaker, Threshold, Ttl};
use super::values::{Community, Dscp, Network, RouteTarget};
use crate::model::Action;
use crate::settings::{self, Settings};

/// The table, with every default written out.
pub(super) fn document(settings: &Settings) -> Document {
    let written = &settings.document;
    let (caps, ttl) = (&settings.caps, &settings.ttl);
    let share = |fraction| Share::from_fraction(fraction);
    Document {
        mode: Some(settings.mode),
        agents: Some(settings.agents.clone()),
        journal: settings.journal.clone(),
        false_alarms: Some(written.false_alarms.unwrap_or(FALSE_ALARMS)),
        burst: span(settings.burst),
        witnesses: Some(settings.witnesses),
        settle: span(settings.settle),
        ingress: written.ingress.clone(),
        allow: Some(Allow {
            sources: Some(settings.allowed_sources.iter().copied().map(Network).collect()),
            destinations: Some(written.allow.as_ref().and_then(|allow| allow.destinations.clone()).unwrap_or_default()),
        }),
        caps: Some(Caps {
            routes: Some(caps.routes),
            prefixes: Some(caps.prefixes),
            share: share(caps.share),
            harm: share(caps.harm),
            unknown_harm: Some(caps.unknown_harm),
        }),
        ttl: Some(Ttl {
            first: span(ttl.first),
            most: span(ttl.most),
            hysteresis: span(ttl.hysteresis),
            backoff: Some(ttl.backoff),
        }),
        speaker: settings.speaker.as_ref().map(speaker),
        access: settings.access.clone(),
        hooks: written.hooks.clone(),
        groups: settings.groups.iter().map(|(name, of)| (name.clone(), group(of))).collect(),
    }
}

fn group(group: &settings::Group) -> Group {
    let threshold = |of: &settings::Threshold| Threshold {
        packets: of.packets.map(frequency),
        bits: of.bits.map(|bits| BitRate { bits_per_second: bits as u64 }),
        learn: Some(of.learn),
        min_sources: Some(of.min_sources),
        ratio: Some(of.ratio),
        spread: Some(of.spread),
    };
    Group {
        networks: group.networks.iter().copied().map(Network).collect(),
        mode: Some(group.mode),
        thresholds: group.thresholds.iter().map(|(class, of)| (*class, threshold(of))).collect(),
        levels: group.levels.iter().map(level).collect(),
    }
}

fn level(level: &settings::Level) -> Level {
    let bare = |action| Level {
        action,
        after: span(level.after),
        rate: None,
        dscp: None,
        to: None,
        harm: Share::from_fraction(level.harm),
    };
    match level.action {
        Action::Drop => bare(Kind::Drop),
        Action::Blackhole => bare(Kind::Blackhole),
        Action::Limit { bytes_per_s } => {
            let rate = Some(BitRate { bits_per_second: (f64::from(bytes_per_s) * 8.0) as u64 });
            Level { rate, ..bare(Kind::Limit) }
        }
        Action::Mark { dscp } => Level { dscp: Some(Dscp(dscp)), ..bare(Kind::Mark) },
        Action::Redirect { asn, number } => Level { to: Some(RouteTarget { asn, number }), ..bare(Kind::Redirect) },
    }
}

fn speaker(speaker: &settings::Speaker) -> Speaker {
    let community = |(asn, number)| Some(Community(asn, number));
    Speaker {
        gobgp: weir_program::config::Address(speaker.gobgp),
        marker: speaker.marker.and_then(community),
        community: community(speaker.community),
        next_hop: speaker.next_hop,
        next_hop_v6: speaker.next_hop_v6,
        on_stop: Some(speaker.on_stop),
        neighbours: speaker.neighbours.clone(),
    }
}

fn span(span: Duration) -> Option<Span> {
    Some(Span::from_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
}
