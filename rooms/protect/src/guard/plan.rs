//! Which routes a step of action means, and what forbids them.

use ipnet::IpNet;

use super::{Guard, Traffic};
use crate::model::{Action, Detection, Harm, Mode, Refusal, Route, Rule};
use crate::settings::{Group, Settings};

/// What would be done.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) routes: Vec<Route>,
    pub(super) harm: Harm,
}

/// What would be done, and why it may not; nothing where there is no rule to speak of.
pub(super) type Planned = (Option<Plan>, Result<(), Refusal>);

impl Guard {
    /// The narrowest rule that a step of action can be carried out with, that touches nobody whom it must not, harms few enough, and
    /// is within the caps; of those that are not, the narrowest, for people to see. `approved`: a person took the harm upon themselves.
    pub(super) fn plan(
        &self,
        group: &Group,
        detection: &Detection,
        level: usize,
        approved: bool,
        traffic: &dyn Traffic,
    ) -> Planned {
        let (settings, used) = (&self.settings, &self.used);
        let Some(step) = group.levels.get(level) else {
            return (None, refuse("level", "there is no such step".into()));
        };
        // A person sees that nothing is known; by itself nothing is taken away on that.
        let is_known_enough = |rule: &Rule| group.mode != Mode::Automatic || rule.is_telling();
        let blackhole = step.action == Action::Blackhole;
        let bare = [Rule::to(detection.target.prefix)];
        let rules: &[Rule] = if blackhole || detection.rules.is_empty() { &bare } else { &detection.rules };
        let mut first: Option<Planned> = None;
        for rule in rules.iter().rev() {
            let (plan, verdict) = match route(settings, step.action, rule) {
                Err(refusal) => (None, Err(refusal)),
                Ok(route) => {
                    let harm = match step.action {
                        // They take nothing away.
                        Action::Mark { .. } | Action::Redirect { .. } => Harm { packets: 0.0, share: Some(0.0) },
                        _ => traffic.harm(&detection.target.prefix, rule),
                    };
                    let plan = Plan { routes: vec![route], harm };
                    let verdict = self
                        .touches(group, rule)
                        .and_then(|()| if approved { Ok(()) } else { harms(&harm, step.harm, is_known_enough(rule)) })
                        .and_then(|()| used.fits(&plan.routes, &settings.caps));
                    (Some(plan), verdict)
                }
            };
            if verdict.is_ok() {
                return (plan, verdict);
            }
            first.get_or_insert((plan, verdict));
        }
        first.unwrap_or((None, refuse("rule", "nothing tells its packets from others".into())))
    }
}

impl Guard {
    /// Refuses what touches those who are never hit, or is not within the group.
    fn touches(&self, group: &Group, rule: &Rule) -> Result<(), Refusal> {
        let destination = &rule.destination;
        if let Some(net) = self.untouchable().find(|net| overlap(net, destination)) {
            return refuse("protected", format!("{destination} touches {net}, for which nothing is ever announced"));
        }
        if !group.networks.iter().any(|net| net.contains(destination)) {
            return refuse("protected", format!("{destination} is not within the group's networks"));
        }
        let Some(source) = &rule.source else { return Ok(()) };
        let allowed = self.settings.allowed_sources.iter().find(|net| overlap(net, source));
        allowed.map_or(Ok(()), |net| {
            refuse("protected", format!("source {source} touches {net}, which allow.sources names"))
        })
    }

    /// For whom nothing is ever announced: those of the settings, and gobgpd's neighbours.
    pub(super) fn untouchable(&self) -> impl Iterator<Item = IpNet> {
        self.settings.untouchable.iter().copied().chain(self.neighbours.iter().copied().map(IpNet::from))
    }
}

pub(super) fn overlap(one: &IpNet, other: &IpNet) -> bool {
    one.contains(other) || other.contains(one)
}

fn refuse(limit: &'static str, why: String) -> Result<(), Refusal> {
    Err(Refusal { limit, why })
}

fn route(settings: &Settings, action: Action, rule: &Rule) -> Result<Route, Refusal> {
    let speaker = settings.speaker.as_ref();
    if action != Action::Blackhole {
        return Ok(Route { rule: rule.clone(), action, next_hop: None, communities: Vec::new() });
    }
    let v4 = rule.destination.addr().is_ipv4();
    let next_hop = speaker.and_then(|speaker| if v4 { speaker.next_hop } else { speaker.next_hop_v6 });
    if speaker.is_some() && next_hop.is_none() {
        let key = if v4 { "next_hop" } else { "next_hop_v6" };
        return Err(Refusal { limit: "next_hop", why: format!("protect.speaker has no {key} for a blackhole") });
    }
    let communities = speaker.map(|speaker| speaker.community).into_iter().collect();
    Ok(Route { rule: rule.clone(), action, next_hop, communities })
}

/// `is_known_enough`: whether it may be done where nothing is known of the time before.
fn harms(harm: &Harm, most: f64, is_known_enough: bool) -> Result<(), Refusal> {
    match harm.share {
        None if most < 1.0 && !is_known_enough => refuse(
            "harm",
            "too little is known of the target's other traffic to tell what it would hit, and nothing narrower tells the flood \
             from it (a person may approve it)"
                .into(),
        ),
        Some(share) if share > most => {
            let (percent, most) = (share * 100.0, most * 100.0);
            refuse(
                "harm",
                format!(
                    "it would hit {percent:.1} % of the target's other traffic ({:.0} packets/s), at most {most:.1} % may be \
                     (a person may approve it)",
                    harm.packets
                ),
            )
        }
        _ => Ok(()),
    }
}
