//! The namespaces that are watched, and what is open in each.

use std::collections::HashSet;

use weir_kernel::Error;
use weir_kernel::namespaces::{self, Listed, NetNs, Survey};
use weir_kernel::sockets::Sockets;
use weir_units::format::counted;

use super::settings::Where;
use super::totals::Totals;
use crate::reading::Reader;

/// A namespace and its readers. As long as these are open it cannot end: see [`Namespaces::follow`].
pub(crate) struct Watched {
    pub(crate) inode: u32,
    /// What it is called.
    pub(crate) name: String,
    /// What was asked for.
    asked: Option<String>,
    pub(crate) ns: NetNs,
    pub(crate) sockets: Sockets,
    pub(crate) reader: Reader,
    /// Of its counters.
    pub(crate) totals: Totals,
    /// It came after the watch had begun: its counters began at 0.
    pub(crate) late: bool,
}

/// All of them.
pub(crate) struct Namespaces {
    wanted: Where,
    pub(crate) watched: Vec<Watched>,
    /// How many there are that cannot be watched, and why the first cannot.
    refused: Option<(usize, Error)>,
    /// Processes that may be in others, where all are wanted.
    hidden: usize,
}

impl Namespaces {
    /// Opens them.
    ///
    /// # Errors
    /// If one that was asked for is not there or may not be entered.
    pub(crate) fn open(wanted: Where) -> Result<Self, Error> {
        let names = Names::new();
        let (mut watched, mut refused) = (Vec::new(), None);
        match &wanted {
            Where::Own => watched.push(Watched::open(NetNs::current()?, &names, None)?),
            Where::All => {
                for listed in &names.0 {
                    watched.extend(Watched::open_or_refuse(listed, &names, &mut refused));
                }
                if watched.is_empty() {
                    watched.push(Watched::open(NetNs::current()?, &names, None)?);
                }
            }
            Where::Named(all) => {
                for asked in all {
                    let found = Watched::open(namespaces::find(asked)?, &names, Some(asked.clone()))?;
                    if watched.iter().all(|known: &Watched| known.inode != found.inode) {
                        watched.push(found);
                    }
                }
            }
        }
        let hidden = if wanted == Where::All { names.1 } else { 0 };
        Ok(Self { wanted, watched, refused, hidden })
    }

    /// Lets go of those that have gone, and takes those that came where all are wanted. Returns what went, by name.
    pub(crate) fn follow(&mut self) -> Vec<String> {
        let mut gone = Vec::new();
        match &self.wanted {
            Where::Own => {}
            Where::All => {
                let names = Names::new();
                let own = NetNs::current().and_then(|own| own.inode()).ok();
                self.watched.retain(|known| Some(known.inode) == own || names.find(known.inode).is_some());
                let known: HashSet<u32> = self.watched.iter().map(|known| known.inode).collect();
                (self.refused, self.hidden) = (None, names.1);
                for listed in names.0.iter().filter(|listed| !known.contains(&listed.inode)) {
                    if let Some(mut found) = Watched::open_or_refuse(listed, &names, &mut self.refused) {
                        found.late = true;
                        self.watched.push(found);
                    }
                }
            }
            Where::Named(_) => {
                let is_there = |known: &Watched| {
                    let found = known.asked.as_ref().map(|asked| namespaces::find(asked).and_then(|ns| ns.inode()));
                    found.is_none_or(|found| found.is_ok_and(|inode| inode == known.inode))
                };
                let (kept, lost) = std::mem::take(&mut self.watched).into_iter().partition(is_there);
                self.watched = kept;
                gone.extend(Vec::into_iter(lost).map(|lost: Watched| lost.name));
            }
        }
        gone
    }

    /// Those that are there and cannot be watched, and those that nobody can see, a line each.
    pub(crate) fn unseen(&self) -> impl Iterator<Item = String> {
        let refused = self.refused.as_ref().map(|(count, why)| {
            format!("{count} of {} network namespaces cannot be read: {why}", self.watched.len() + count)
        });
        let processes = counted(self.hidden, "process");
        let hidden = format!("network namespaces of {processes} may be missing (needs CAP_SYS_PTRACE to see them)");
        refused.into_iter().chain((self.hidden > 0).then_some(hidden))
    }
}

impl Watched {
    /// `None`: it has just gone, or cannot be watched, which is counted.
    fn open_or_refuse(listed: &Listed, names: &Names, refused: &mut Option<(usize, Error)>) -> Option<Self> {
        let ns = listed.open().ok()?;
        match Self::open(ns, names, None) {
            Ok(watched) => Some(watched),
            Err(error) => {
                refused.get_or_insert((0, error)).0 += 1;
                None
            }
        }
    }

    fn open(ns: NetNs, names: &Names, asked: Option<String>) -> Result<Self, Error> {
        let inode = ns.inode()?;
        let by_number = |text: &String| text.parse::<u32>().is_ok() || text.contains('/');
        let name = names.find(inode).or_else(|| asked.clone().filter(|text| !by_number(text))).unwrap_or_default();
        Ok(Self {
            inode,
            name,
            asked,
            sockets: Sockets::open(&ns)?,
            reader: Reader::open(&ns)?,
            totals: Totals::default(),
            ns,
            late: false,
        })
    }
}

/// What namespaces are called.
struct Names(Vec<Listed>, usize);

impl Names {
    fn new() -> Self {
        let Survey { listed, hidden } = namespaces::survey().unwrap_or_default();
        Self(listed, hidden)
    }

    /// `None`: there is none such. Empty: it has no name.
    fn find(&self, inode: u32) -> Option<String> {
        let listed = self.0.iter().find(|listed| listed.inode == inode)?;
        let host = || (listed.pid == Some(1)).then(|| "host".to_owned());
        Some(listed.name.clone().or_else(host).unwrap_or_default())
    }
}
