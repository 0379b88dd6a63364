//! Sessions with gobgpd, one after another: each begins with a look at all that is there.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use super::State;
use super::gobgp::{Change, Client, Failure, neighbour};
use super::marker::Marker;
use super::table::{Found, Table, desired};
use super::wire::{Announcement, Family, Key};
use crate::model::{Installed, Neighbour, Route};
use crate::settings;

/// All routes that are wanted; `None`: nobody has said yet.
type Wanted = watch::Receiver<Option<Arc<[Route]>>>;

/// What a speaker's thread does.
pub(super) struct Driver<T> {
    address: String,
    wanted: Wanted,
    tell: T,
    state: State,
    marker: Marker,
    /// What was withdrawn last: it does not come back unless somebody else announces it as ours.
    withdrawn: HashSet<Key>,
}

impl<T: Fn(&State)> Driver<T> {
    pub(super) fn new(settings: &settings::Speaker, wanted: Wanted, tell: T) -> Self {
        let state = State::new(settings);
        let (address, marker) = (settings.gobgp.0.to_string(), state.marker);
        Self { address, wanted, tell, state, marker, withdrawn: HashSet::new() }
    }

    /// Speaks until it is told to stop.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut pause = FIRST_PAUSE;
        loop {
            tokio::select! {
                biased;
                _ = stop.wait_for(|&stop| stop) => return,
                Err(Failure::Lost(why) | Failure::Refused(why)) = self.session() => {
                    if self.state.speaking.connected {
                        pause = FIRST_PAUSE;
                    }
                    self.lost(&why);
                }
            }
            tokio::select! {
                biased;
                _ = stop.wait_for(|&stop| stop) => return,
                () = sleep(pause) => {}
            }
            pause = (2 * pause).min(LAST_PAUSE);
        }
    }

    /// One session: from the connection to what ends it.
    async fn session(&mut self) -> Result<Infallible, Failure> {
        let (mut client, global) = Client::connect(&self.address).await?;
        let client = &mut client;
        let mut table = Table::default();
        self.look(client, &mut table, None).await?;
        self.look_at_neighbours(client).await?;
        let version = client.version().name();
        let (asn, router_id) = (global.asn, weir_program::escape::escaped(&global.router_id));
        let speaking = &mut self.state.speaking;
        (speaking.connected, speaking.since, speaking.why) = (true, Some(SystemTime::now()), None);
        (speaking.version, speaking.standing) = (format!("gobgpd {version}"), Some(table.len()));
        tracing::info!(
            "gobgpd at {} answers ({version}, AS {asn}, {router_id}): it has {} routes of Weir's (what is not wanted of them is withdrawn)",
            self.address,
            table.len()
        );
        let mut beat = interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut audit = Instant::now() + AUDIT;
        loop {
            let wanted = self.wanted.borrow_and_update().clone();
            if let Some(wanted) = wanted {
                self.hold(client, &mut table, &desired(&wanted, self.marker)).await?;
                self.state.held = Some(wanted);
            }
            (self.tell)(&self.state);
            loop {
                tokio::select! {
                    biased;
                    // It is never closed: the handle waits for us.
                    Ok(()) = self.wanted.changed() => break,
                    () = client.ended() => return Err(Failure::Lost("it has ended the session".to_owned())),
                    _ = beat.tick() => if self.look_at_neighbours(client).await? {
                        break;
                    },
                    () = sleep_until(audit) => {
                        let began = Instant::now();
                        self.look(client, &mut table, None).await?;
                        self.look_at_neighbours(client).await?;
                        // A table of millions takes its time: most of it is others'.
                        audit = Instant::now() + AUDIT.max(20 * began.elapsed());
                        break;
                    }
                }
            }
        }
    }

    /// Makes the table what is wanted, and the state what the table and the neighbours have.
    async fn hold(
        &mut self,
        client: &mut Client,
        table: &mut Table,
        desired: &HashMap<Key, Announcement>,
    ) -> Result<(), Failure> {
        let missing = table.missing(desired);
        // Somebody may have put a route there since the last look.
        self.look(client, table, Some(&missing)).await?;
        let surplus = table.surplus(desired);
        let withdrawn = surplus.iter().map(|local| (&local.key, &local.attributes, true));
        let free = missing.iter().filter(|key| !table.is_others(key)).filter_map(|key| desired.get(key));
        let announced = free.map(|route| (&route.key, &route.attributes, false));
        let changes: Vec<Change<'_>> = withdrawn.chain(announced).collect();
        let mut refused = HashMap::new();
        if !changes.is_empty() {
            // Should it fall silent now, so many may be there.
            self.state.speaking.standing = Some(table.len() + changes.len() - surplus.len());
            (self.tell)(&self.state);
            match client.change(&changes).await {
                // It stops at the first that it does not like: which are they?
                Err(Failure::Refused(_)) => {
                    for &change in &changes {
                        match client.change(&[change]).await {
                            Err(Failure::Refused(why)) => drop(refused.insert(change.0, why)),
                            changed => changed?,
                        }
                    }
                }
                changed => changed?,
            }
            for why in surplus.iter().filter_map(|local| refused.get(&local.key)) {
                tracing::warn!("gobgpd at {}: a route is not withdrawn: {why}", self.address);
            }
            let touched = surplus.iter().map(|local| &local.key).chain(&missing);
            self.look(client, table, Some(&touched.cloned().collect::<Vec<_>>())).await?;
            if surplus.iter().any(|local| self.withdrawn.contains(&local.key)) {
                tracing::warn!(
                    "gobgpd at {}: a route came back that was withdrawn: does another Weir have protect.speaker.id = {}?",
                    self.address,
                    self.marker.id
                );
            }
            self.withdrawn = surplus.iter().map(|local| local.key.clone()).collect();
        }
        let reached = self.reached(client, desired).await?;
        let installed = |route: &Announcement| {
            let why = match table.own(&route.key) {
                Some(local) if local.attributes == route.attributes => match reached.contains(&route.key) {
                    true => return Installed::Yes { since: local.since },
                    false => self.unreachable(route.key.family),
                },
                _ if table.is_others(&route.key) => OTHERS.to_owned(),
                _ => refused.get(&route.key).map_or(VANISHED, String::as_str).to_owned(),
            };
            Installed::No { why }
        };
        let routes = desired.values().map(|route| (route.key.clone(), (route.attributes.clone(), installed(route))));
        let routes: HashMap<_, _> = routes.collect();
        self.state.speaking.standing = Some(table.len());
        self.state.routes = routes;
        Ok(())
    }

    /// What the adj-out of any neighbour has whose session stands: gobgpd leaves out families that are not negotiated, and what its
    /// export policy refuses.
    async fn reached(
        &self,
        client: &mut Client,
        desired: &HashMap<Key, Announcement>,
    ) -> Result<HashSet<Key>, Failure> {
        let mut reached = HashSet::new();
        for neighbour in self.state.speaking.neighbours.iter().filter(|neighbour| neighbour.is_established()) {
            for family in Family::ALL {
                let keys: Vec<&Key> = desired.keys().filter(|key| key.family == family).collect();
                if keys.is_empty() || keys.iter().all(|key| reached.contains(*key)) {
                    continue;
                }
                let prefixes: Vec<_> = keys.iter().filter_map(|key| key.prefix()).collect();
                match client
                    .sent_to(neighbour.address, family, &prefixes, |key| {
                        reached.insert(key);
                    })
                    .await
                {
                    // The family is none of this neighbour's, or the neighbour is gone.
                    Err(Failure::Refused(_)) => {}
                    looked => looked?,
                }
            }
        }
        Ok(reached)
    }

    /// Why no neighbour has a route of this family.
    fn unreachable(&self, family: Family) -> String {
        let said = |neighbour: &Neighbour| match neighbour.is_established() {
            true => format!("{neighbour} has not negotiated {family}, or gobgpd's export policy refuses it"),
            false => format!("{neighbour} is {}", neighbour.state),
        };
        let told: Vec<String> = self.state.speaking.neighbours.iter().take(NAMED).map(said).collect();
        let why = if told.is_empty() { "gobgpd has no neighbour".to_owned() } else { told.join("; ") };
        format!("unreachable by BGP: {why}")
    }

    /// Finds all that is ours, or looks at some places again: unicast ones by their prefixes, FlowSpec as a whole, since it is found in no
    /// other way.
    async fn look(&self, client: &mut Client, table: &mut Table, places: Option<&[Key]>) -> Result<(), Failure> {
        for family in Family::ALL {
            let of_family = |keys: &'_ [Key]| keys.iter().filter(|key| key.family == family).cloned().collect();
            let keys: Option<HashSet<Key>> = places.map(of_family);
            if keys.as_ref().is_some_and(HashSet::is_empty) {
                continue;
            }
            let mut found = Found::new(self.marker.own(), keys.as_ref());
            let looked_at = keys.as_ref().filter(|_| !family.is_flow);
            let prefixes: Vec<_> = looked_at.into_iter().flatten().filter_map(Key::prefix).collect();
            match client.local_paths(family, &prefixes, |place| found.take(place)).await {
                // It has no table for this family: nothing is in it, and nothing will be.
                Err(Failure::Refused(_)) => {}
                looked => looked?,
            }
            table.enter(|key| key.family == family && looked_at.is_none_or(|keys| keys.contains(key)), found);
        }
        Ok(())
    }

    /// Whether any neighbour is other than it was. When a session of one ends, its routes go.
    async fn look_at_neighbours(&mut self, client: &mut Client) -> Result<bool, Failure> {
        let mut neighbours: Vec<Neighbour> = client.peers().await?.iter().filter_map(neighbour).collect();
        neighbours.sort_by_key(|neighbour| neighbour.address);
        for now in &neighbours {
            let known = &self.state.speaking.neighbours;
            let Some(before) = known.iter().find(|known| known.address == now.address) else { continue };
            match (before.is_established(), now.is_established()) {
                (true, false) => tracing::warn!(
                    "gobgpd at {}: {now} is no longer established ({}), and has none of Weir's {} routes: its log says why (a prefix limit?)",
                    self.address,
                    now.state,
                    self.state.routes.len()
                ),
                (false, true) => tracing::info!("gobgpd at {}: {now} is established", self.address),
                _ => {}
            }
        }
        let before = std::mem::replace(&mut self.state.speaking.neighbours, neighbours);
        Ok(before != self.state.speaking.neighbours)
    }

    /// Says so once, when a session has ended or none has begun, and again when the reason is another.
    fn lost(&mut self, why: &str) {
        let speaking = &mut self.state.speaking;
        if speaking.connected {
            (speaking.connected, speaking.since) = (false, Some(SystemTime::now()));
        } else if speaking.why.as_deref() == Some(why) {
            return;
        }
        speaking.why = Some(why.to_owned());
        speaking.neighbours.clear();
        let waiting = self.wanted.borrow().as_ref().map_or(0, |routes| routes.len());
        tracing::warn!("gobgpd at {}: {why} (tried again; {waiting} routes wait)", self.address);
        self.state.routes.clear();
        self.state.held = None;
        (self.tell)(&self.state);
    }
}

const OTHERS: &str = "gobgpd has a route of somebody else there (it lacks this Weir's id): it stays as it is";
const VANISHED: &str =
    "gobgpd has taken it, and does not have it (is the family among its own? has it an import policy?)";

/// From one session's end to the next try.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// How often it is asked for its neighbours, and so whether it is there.
const BEAT: Duration = Duration::from_secs(1);

/// How often all of its table is looked at.
const AUDIT: Duration = Duration::from_secs(10);

/// Neighbours that a reason names.
const NAMED: usize = 3;
