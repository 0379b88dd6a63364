//! The ways by which datagrams come in: a listener, and the address of this machine that they were sent to. An answer goes
//! back by the way of what it answers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::counters::ListenerBook;

/// The ways that a worker has seen, numbered.
#[derive(Default)]
pub(super) struct Ways {
    ways: Vec<Way>,
    numbers: HashMap<Key, u16>,
    /// The last one that was asked for: mostly the next one, too.
    last: Option<(Key, u16)>,
}

/// A way in.
pub(super) struct Way {
    /// What tells the listener from others in every plan.
    pub(super) listener: Arc<ListenerBook>,
    /// The address of this machine; `None`: nobody knows, or it is not this machine's alone.
    pub(super) local: Option<IpAddr>,
}

type Key = (*const ListenerBook, Option<IpAddr>);

impl Ways {
    /// The number of a way. Of too many, which only a machine with as many addresses has, all further ones are [`NOWHERE`].
    pub(super) fn number(&mut self, listener: &Arc<ListenerBook>, local: Option<IpAddr>) -> u16 {
        let key = (Arc::as_ptr(listener), local);
        if let Some((last, number)) = self.last
            && last == key
        {
            return number;
        }
        let Self { ways, numbers, .. } = self;
        let number = *numbers.entry(key).or_insert_with(|| {
            let number = u16::try_from(ways.len()).unwrap_or(NOWHERE);
            if number != NOWHERE {
                ways.push(Way { listener: Arc::clone(listener), local });
            }
            number
        });
        self.last = Some((key, number));
        number
    }

    /// The way of a number.
    pub(super) fn get(&self, number: u16) -> Option<&Way> {
        self.ways.get(usize::from(number))
    }
}

/// The number of no way.
pub(super) const NOWHERE: u16 = u16::MAX;
