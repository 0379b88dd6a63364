//! `[protect]` as it is written: every key with its type, its default and its bounds.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_program::config::Address;
use weir_program::{keys, values};
use weir_units::{BitRate, Frequency, Share, Span};

use super::values::{Community, Exporter, Network, Rarity, RouteTarget};
use crate::model::{Class, Mode};

keys! {
    /// `[protect]`.
    pub struct Document {
        /// Who decides, for groups that have no mode of their own: nobody (`observe`), a person (`manual`), or Weir (`automatic`).
        mode: Mode = "observe";
        /// Agents whose samples may lead to an action, and where their datagrams come from, if not from themselves: `"10.0.0.1 from
        /// 192.0.2.9"`.
        agents: Vec<Exporter>;
        /// How long a stream of an agent must have been heard without a contradiction before it may lead to an action by itself.
        settle: Span = "60s", "1s" to "1h";
        /// File in which is written what was done, by whom and why.
        journal (fixed): Option<PathBuf>;
        /// How often something may be taken for an attack that is none, of all targets together.
        false_alarms: Rarity = "1/year";
        /// What may come above a threshold in one piece: as much as the threshold lets pass in this time.
        burst: Span = "100ms", "1ms" to "60s";
        /// How many settled agents must have decided.
        witnesses: u16 = 1, 1 to 16;
        /// Interfaces at which traffic enters your network: only their samples are added up. Default: all of the agent that sees most.
        ingress: Vec<String>;
        /// What is never hit.
        allow: Allow = {};
        /// What is announced at most.
        caps: Caps = {};
        /// How long routes live.
        ttl: Ttl = {};
        /// Who announces. Without it: nobody, all is observed.
        speaker (fixed): Option<Speaker>;
        /// Who may ask and act. Without it: nobody.
        access (fixed): Option<Access>;
        /// Who is told.
        hooks (fixed): Hooks = {};
        /// What is protected.
        groups: BTreeMap<String, Group>;
    }
    gone { probation: "every stream of an agent has to be heard for `settle` now: remove it"; }
}

keys! {
    /// `[protect.groups.NAME]`
    pub struct Group {
        /// Its networks.
        networks: Vec<Network>;
        /// Who decides. Without it: as for all.
        mode: Option<Mode>;
        /// What is too much, by class: `thresholds.udp_flood.packets = "40k/s"`.
        thresholds: BTreeMap<Class, Threshold>;
        /// What is done, step by step. Without it: one step, `drop`.
        levels: Vec<Level>;
    }
}

keys! {
    /// `[protect.groups.NAME.thresholds.CLASS]`
    pub struct Threshold {
        /// Packets a second.
        packets: Option<Frequency>, "1/s" to;
        /// Bits a second.
        bits: Option<BitRate>, "1bit" to;
        /// Whether it is learnt by the hour of the week, never below those.
        learn: bool;
        /// So many different sources at least.
        min_sources: u16 = 1, 1 to 1000;
        /// How many times as much as what was learnt a host may get.
        ratio: f64 = 1.5, 1.0 to 100.0;
        /// A prefix of n addresses may get n^spread times as much as a host.
        spread: f64 = 0.5, 0.0 to 1.0;
    }
}

keys! {
    /// `[[protect.groups.NAME.levels]]`
    pub struct Level {
        /// `drop`, `limit`, `mark`, `redirect` (FlowSpec) or `blackhole`.
        action: Kind;
        /// How long the step before may go on without helping; the first step has none.
        after: Option<Span>, "1s" to;
        /// Of `limit`.
        rate: Option<BitRate>, "8bit" to;
        /// Of `mark`.
        dscp: Option<u8>, 0 to 63;
        /// Of `redirect`: the route target, AS:NN.
        to: Option<RouteTarget>;
        /// The part of a target's other traffic that this step may hit. Without it: as for all.
        harm: Option<Share>;
    }
}

keys! {
    /// `[protect.allow]`
    pub struct Allow {
        /// What they send is no part of a flood, and no rule names them.
        sources: Vec<Network>;
        /// Nothing is announced that touches them: routers, resolvers, monitoring.
        destinations: Vec<Network>;
    }
}

keys! {
    /// `[protect.caps]`
    pub struct Caps {
        /// Routes at once.
        routes: u32 = 1000, 1 to 100000;
        /// Prefixes that they are for.
        prefixes: u32 = 256, 1 to 100000;
        /// The part of the protected addresses of a family that is taken from the network: blackholed, or all to it dropped.
        share: Share = "5%", "0.000001%" to "100%";
        /// The part of a target's other traffic that may be hit, where a level says nothing else.
        harm: Share = "20%";
    }
    gone { unknown_harm: "where nothing is known of the time before, only narrow rules are announced without a person: remove it"; }
}

keys! {
    /// `[protect.ttl]`
    pub struct Ttl {
        /// The first time.
        first: Span = "10m", "1s" to "168h";
        /// At most.
        most: Span = "24h", "1s" to "168h";
        /// How long routes stay when the attack is no longer seen.
        hysteresis: Span = "60s", "1s" to "168h";
        /// By how much longer both are each time that it comes back.
        backoff: f64 = 2.0, 1.0 to 16.0;
    }
}

keys! {
    /// `[protect.speaker]`
    pub struct Speaker {
        /// gobgpd's gRPC, on this machine.
        gobgp: Address;
        /// Tells this Weir's routes from others' at the same gobgpd: on each is the large community 4200006343:0:ID.
        id: u32 = 1;
        /// A community on every route, for people and filters.
        marker: Option<Community>;
        /// On blackhole routes: `65535:666`, large `64500:666:0`, or extended `rt:64500:666`, `soo:64500:666` or 16 digits after `0x`.
        community: Community = "65535:666";
        /// Of blackhole routes for IPv4.
        next_hop: Option<IpAddr>;
        /// Of blackhole routes for IPv6.
        next_hop_v6: Option<IpAddr>;
        /// What becomes of routes at an orderly end: `keep` or `withdraw`.
        on_stop: OnStop = "keep";
    }
    gone { neighbours: "gobgpd's own file has them: move them there"; }
}

keys! {
    /// `[protect.access]`
    pub struct Access {
        /// File with a name, `read` or `act`, and a token a line. Others may not read it.
        tokens: PathBuf;
    }
}

keys! {
    /// `[protect.hooks]`
    pub struct Hooks {
        /// A program and its arguments; it gets JSON on its standard input.
        command: Vec<String>;
        /// Where RFC 5424 goes, over UDP.
        syslog: Option<Address>;
        /// How long a program may take.
        timeout: Span = "10s", "100ms" to "10m";
    }
    gone {
        webhook: "write command = [\"curl\", \"-fsS\", \"--json\", \"@-\", \"https://...\"]";
        ca: "curl has --cacert";
    }
}

/// What routers are asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// FlowSpec, traffic-rate 0.
    Drop,
    /// FlowSpec, traffic-rate.
    Limit,
    /// FlowSpec, traffic-marking.
    Mark,
    /// FlowSpec, rt-redirect.
    Redirect,
    /// A blackhole route.
    Blackhole,
}

/// What becomes of routes at an orderly end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnStop {
    /// They are withdrawn.
    Withdraw,
    /// They stay, for the next start to find them.
    #[default]
    Keep,
}

values! {
    Mode = "observe, manual or automatic", Exporter = "agent", Network = "network", Rarity = "times/day, week, month or year",
    Community = "community", RouteTarget = "AS:NN", Kind = "action", OnStop = "keep or withdraw",
}
