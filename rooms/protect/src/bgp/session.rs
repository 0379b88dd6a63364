//! Sessions with gobgpd, one after another: each begins with a look at all that is there.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};

use super::desired::Desired;
use super::gobgp::messages::Peer;
use super::gobgp::{Client, Failure, PATIENCE};
use super::marker::Marker;
use super::neighbours::{self, Change};
use super::table::{Found, Table};
use super::wire::{Announcement, Family, Key};
use super::{OnStop, Session, Settings, State};
use crate::model::{Installed, Route};

/// All routes that are wanted; `None`: nobody has said yet.
type Wanted = watch::Receiver<Option<Arc<[Route]>>>;

/// What a speaker's thread does.
pub(super) struct Driver<T> {
    settings: Settings,
    wanted: Wanted,
    /// Changes when orphans are to go.
    sweep: watch::Receiver<()>,
    tell: T,
    state: State,
    marker: Marker,
    /// As attributes have it.
    own: [u8; 12],
    /// Why a neighbour was not added, or not deleted, as it was told last.
    refused: HashMap<IpAddr, String>,
}

impl<T: Fn(&State)> Driver<T> {
    pub(super) fn new(settings: Settings, wanted: Wanted, sweep: watch::Receiver<()>, tell: T) -> Self {
        let (marker, own) = (settings.marker(), settings.instance.community());
        Self { state: State::new(marker), settings, wanted, sweep, tell, marker, own, refused: HashMap::new() }
    }

    /// Speaks until it is told to stop.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut pause = FIRST_PAUSE;
        loop {
            let mut client = None;
            tokio::select! {
                biased;
                _ = stop.wait_for(|&stop| stop) => return self.leave(client).await,
                why = self.session(&mut client) => {
                    if self.state.is_up() {
                        pause = FIRST_PAUSE;
                    }
                    self.lost(&why);
                }
            }
            tokio::select! {
                biased;
                _ = stop.wait_for(|&stop| stop) => return self.leave(None).await,
                () = sleep(pause) => {}
            }
            pause = (2 * pause).min(LAST_PAUSE);
        }
    }

    /// One session: from the connection to what ends it.
    async fn session(&mut self, client: &mut Option<Client>) -> String {
        match self.hold_on(client).await {
            Ok(never) => match never {},
            Err(Failure::Lost(why) | Failure::Refused(why)) => why,
        }
    }

    async fn hold_on(&mut self, client: &mut Option<Client>) -> Result<Infallible, Failure> {
        let (connected, global) = Client::connect(&self.settings.gobgp).await?;
        let client = client.insert(connected);
        let (tell, mut events) = mpsc::channel(EVENTS);
        // Ends with the session.
        let mut watching = JoinSet::new();
        watching.spawn(client.events(tell));
        let mut table = Table::default();
        let others = self.look_at_all(client, &mut table).await?;
        self.look_at_peers(client).await?;
        let version = client.version().name();
        let (asn, router_id) = (global.asn, weir_program::escape::escaped(&global.router_id));
        self.state.session = Session::Up { since: SystemTime::now(), version, asn, router_id };
        tracing::info!(
            "gobgpd at {} answers ({version}, AS {asn}): {} routes of ours, {others} local ones of others",
            self.settings.gobgp,
            table.len()
        );
        self.state.standing = Some(table.len());
        self.count_orphans(&table);

        // Neighbours come last: not before there is something to hold.
        let mut are_neighbours_due = true;
        let mut beat = interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut audit = Instant::now() + AUDIT;
        loop {
            let wanted = self.wanted.borrow_and_update().clone();
            if let Some(wanted) = wanted {
                self.hold(client, &mut table, &Desired::new(&wanted, self.marker)).await?;
                self.state.held = Some(wanted);
                if std::mem::take(&mut are_neighbours_due) {
                    self.hold_neighbours(client).await?;
                }
            }
            (self.tell)(&self.state);
            loop {
                tokio::select! {
                    biased;
                    // It is never closed: the handle waits for us.
                    Ok(()) = self.wanted.changed() => break,
                    Ok(()) = self.sweep.changed() => {
                        self.look_at_all(client, &mut table).await?;
                        // A look keeps few of them.
                        for _ in 0..SWEEPS {
                            let orphans = table.orphans();
                            if orphans.is_empty() {
                                break;
                            }
                            client.change(&orphans, &[]).await?;
                            self.look_at_all(client, &mut table).await?;
                        }
                        self.count_orphans(&table);
                        break;
                    }
                    event = events.recv() => {
                        let peer = event.ok_or_else(|| Failure::Lost("it has ended the session".to_owned()))?;
                        self.hear(client, &peer).await?;
                        (self.tell)(&self.state);
                    }
                    _ = beat.tick() => client.alive().await?,
                    () = sleep_until(audit) => {
                        let began = Instant::now();
                        self.look_at_all(client, &mut table).await?;
                        are_neighbours_due = true;
                        self.count_orphans(&table);
                        // A table of millions takes its time: most of it is others'.
                        audit = Instant::now() + AUDIT.max(20 * began.elapsed());
                        break;
                    }
                }
            }
        }
    }

    /// Says so when there are more orphans than before.
    fn count_orphans(&mut self, table: &Table) {
        let orphans = table.orphans();
        let before = std::mem::replace(&mut self.state.orphans, orphans.len());
        if orphans.len() > before {
            let prefix = orphans.iter().find_map(|local| local.key.prefix());
            let example = prefix.map(|prefix| format!(", {prefix} for one")).unwrap_or_default();
            tracing::warn!(
                "gobgpd at {}: {} routes have the number of another Weir{example}: if that was this one before its journal was lost, \
                 nobody withdraws them (`weir protect sweep` does)",
                self.settings.gobgp,
                orphans.len()
            );
        }
    }

    /// Makes the table what is wanted, and the state what the table is.
    async fn hold(&mut self, client: &mut Client, table: &mut Table, desired: &Desired) -> Result<(), Failure> {
        let missing = table.missing(desired);
        // Somebody may have put a route there since the last look.
        self.look_at(client, table, &missing).await?;
        let surplus = table.surplus(desired);
        let announced: Vec<&Announcement> =
            missing.iter().filter(|key| !table.is_others(key)).filter_map(|key| desired.get(key)).collect();
        let mut refused = HashMap::new();
        if !surplus.is_empty() || !announced.is_empty() {
            // Should it fall silent now, so many may be there.
            self.state.standing = Some(table.len() + announced.len());
            (self.tell)(&self.state);
            match client.change(&surplus, &announced).await {
                Err(Failure::Refused(_)) => {
                    // It stops at the first that it does not like: which are they?
                    for local in &surplus {
                        let gone = client.change(std::slice::from_ref(local), &[]).await;
                        if let Err(Failure::Refused(why)) = gone {
                            tracing::warn!("gobgpd at {}: a route is not withdrawn: {why}", self.settings.gobgp);
                        } else {
                            gone?;
                        }
                    }
                    for &announcement in &announced {
                        let added = client.change(&[], &[announcement]).await;
                        if let Err(Failure::Refused(why)) = added {
                            refused.insert(&announcement.key, why);
                        } else {
                            added?;
                        }
                    }
                }
                changed => changed?,
            }
            let touched = surplus.iter().map(|local| &local.key).chain(&missing);
            self.look_at(client, table, &touched.cloned().collect::<Vec<_>>()).await?;
        }
        let installed = |route: &Announcement| match table.own(&route.key) {
            Some(local) if local.attributes == route.attributes => Installed::Yes { since: local.since },
            _ if table.is_others(&route.key) => Installed::No { why: OTHERS.to_owned() },
            _ => Installed::No { why: refused.get(&route.key).map_or(VANISHED, String::as_str).to_owned() },
        };
        self.state.standing = Some(table.len());
        let routes = desired.iter().map(|route| (route.key.clone(), (route.attributes.clone(), installed(route))));
        self.state.routes = routes.collect();
        Ok(())
    }

    /// Finds all that is ours; how many local routes others have.
    async fn look_at_all(&self, client: &mut Client, table: &mut Table) -> Result<usize, Failure> {
        let mut others = 0;
        for family in Family::ALL {
            others += self.look(client, table, family, None).await?;
        }
        Ok(others)
    }

    /// Looks at these places again: unicast ones by their prefixes, FlowSpec as a whole, since it is found in no other way.
    async fn look_at(&self, client: &mut Client, table: &mut Table, keys: &[Key]) -> Result<(), Failure> {
        for family in Family::ALL {
            let keys: HashSet<&Key> = keys.iter().filter(|key| key.family == family).collect();
            if !keys.is_empty() {
                self.look(client, table, family, Some(&keys)).await?;
            }
        }
        Ok(())
    }

    async fn look(
        &self,
        client: &mut Client,
        table: &mut Table,
        family: Family,
        keys: Option<&HashSet<&Key>>,
    ) -> Result<usize, Failure> {
        let mut found = Found::new(&self.own, keys, MOST_OWN);
        let keys = keys.filter(|_| !family.is_flow);
        let prefixes: Vec<_> = keys.into_iter().flatten().filter_map(|key| key.prefix()).collect();
        match client.local_paths(family, &prefixes, |place| found.take(place)).await {
            // It has no table for this family: nothing is in it, and nothing will be.
            Err(Failure::Refused(_)) => {}
            looked => looked?,
        }
        let too_many = |most| {
            Failure::Lost(format!("it has more than {most} routes with this Weir's number: too many to look after"))
        };
        let others = found.others().map_err(too_many)?;
        match keys {
            Some(keys) => table.enter(|key| keys.contains(key), found),
            None => table.enter(|key| key.family == family, found),
        }
        Ok(others)
    }

    /// Gives gobgpd those of our neighbours that it lacks, and takes away those of ours that it is no longer to have.
    async fn hold_neighbours(&mut self, client: &mut Client) -> Result<(), Failure> {
        let there = self.look_at_peers(client).await?;
        let Change { deleted, added } = Change::new(&there, &self.settings.neighbours, self.settings.instance);
        if deleted.is_empty() && added.is_empty() {
            return Ok(());
        }
        for address in deleted {
            tracing::info!(
                "gobgpd at {}: neighbour {address} is deleted: it is asked for otherwise, or not",
                self.settings.gobgp
            );
            self.tried(address, client.delete_peer(address).await)?;
        }
        for peer in added {
            let Some(address) = neighbours::state(&peer).map(|state| state.address) else { continue };
            self.tried(address, client.add_peer(peer).await)?;
        }
        self.look_at_peers(client).await.map(drop)
    }

    /// A refusal is told once.
    fn tried(&mut self, address: IpAddr, changed: Result<(), Failure>) -> Result<(), Failure> {
        match changed {
            Err(Failure::Refused(why)) => {
                if self.refused.get(&address) != Some(&why) {
                    tracing::warn!("gobgpd at {}: neighbour {address}: {why}", self.settings.gobgp);
                    self.refused.insert(address, why);
                }
            }
            changed => {
                changed?;
                self.refused.remove(&address);
            }
        }
        Ok(())
    }

    async fn look_at_peers(&mut self, client: &mut Client) -> Result<Vec<Peer>, Failure> {
        let peers = client.peers().await?;
        self.state.neighbours.clear();
        for state in peers.iter().filter_map(neighbours::state) {
            neighbours::enter(&mut self.state.neighbours, state);
        }
        Ok(peers)
    }

    /// Hears of a neighbour: of one that is not known it may be the last.
    async fn hear(&mut self, client: &mut Client, peer: &Peer) -> Result<(), Failure> {
        let Some(heard) = neighbours::state(peer) else { return Ok(()) };
        let known = &mut self.state.neighbours;
        if let Some(known) = known.iter_mut().find(|known| known.address == heard.address) {
            // Its AS stays: the news may be of one that was deleted, and another is in its place.
            known.state = heard.state;
        } else if known.len() < neighbours::MOST {
            self.look_at_peers(client).await?;
        }
        Ok(())
    }

    /// Says so once, when a session has ended or none has begun, and again when the reason is another.
    fn lost(&mut self, why: &str) {
        match &mut self.state.session {
            Session::Down { why: known, .. } if *known == why => return,
            Session::Down { why: known, .. } => why.clone_into(known),
            Session::Up { .. } => self.state.session = Session::Down { since: SystemTime::now(), why: why.to_owned() },
        }
        let waiting = self.wanted.borrow().as_ref().map_or(0, |routes| routes.len());
        tracing::warn!("gobgpd at {}: {why} (tried again; {waiting} routes wait)", self.settings.gobgp);
        self.state.routes.clear();
        self.state.held = None;
        self.state.neighbours.clear();
        self.refused.clear();
        (self.tell)(&self.state);
    }

    /// The end: withdraws what is ours, where that is asked.
    async fn leave(self, client: Option<Client>) {
        if self.settings.on_stop == OnStop::Keep {
            return;
        }
        let Some(mut client) = client else { return self.routes_stay() };
        // What was on its way when we were told to stop is there, too.
        let withdraw = async {
            let mut table = Table::default();
            self.look_at_all(&mut client, &mut table).await?;
            client.change(&table.surplus(&Desired::default()), &[]).await
        };
        if !timeout(PATIENCE, withdraw).await.is_ok_and(|gone| gone.is_ok()) {
            self.routes_stay();
        }
    }

    fn routes_stay(&self) {
        tracing::warn!("gobgpd at {}: it does not answer, so that routes may stay there", self.settings.gobgp);
    }
}

const OTHERS: &str = "gobgpd has a route of somebody else there (it lacks this Weir's number): it stays as it is";
const VANISHED: &str =
    "gobgpd has taken it, and does not have it (is the family among its own? has it an import policy?)";

/// From one session's end to the next try.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// How often it is asked whether it is there.
const BEAT: Duration = Duration::from_secs(1);

/// How often all of its table is looked at.
const AUDIT: Duration = Duration::from_secs(10);

/// Routes of a family with our number that are looked after: far more than caps permit, as somebody may make them up.
const MOST_OWN: usize = 100_000;

/// How often a sweep looks for further ones.
const SWEEPS: usize = 100;

/// What is heard of neighbours, and not yet taken.
const EVENTS: usize = 64;
