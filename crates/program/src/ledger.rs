//! Ledgers: each count is declared once, as a field, a key of JSON, a metric and a row of docs/metrics.md.
//!
//! ```
//! use weir_program::ledger::{self, Ledger};
//!
//! weir_program::ledger! {
//!     /// What became of all datagrams.
//!     pub struct Total {
//!         /// Seconds since the start.
//!         elapsed_s: f64,
//!         /// Places that they go to.
//!         places: Vec<Place> => each,
//!     }
//!
//!     /// What became of the datagrams for a place.
//!     pub struct Place by name {
//!         /// What it is called.
//!         name: String,
//!         /// Datagrams given to the network.
//!         sent: u64 => Counter "weir_example_sent" ["datagrams"] {place},
//!         /// Not sent, since the network is down.
//!         down: u64,
//!         /// Not sent, since it is full.
//!         full: u64,
//!     } together {
//!         /// Datagrams that were not sent, by reason: `down`, `full`.
//!         Counter "weir_example_dropped" ["datagrams"] {place, reason}: down, full;
//!     }
//! }
//!
//! let names: Vec<String> = ledger::families::<Total>().iter().map(|family| family.full_name()).collect();
//! assert_eq!(names, ["weir_example_sent_datagrams_total", "weir_example_dropped_datagrams_total"]);
//! ```

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Index;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Serialize, Serializer};

/// A metric family: its meaning, and the labels of its samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// Name without unit and suffix: `weir_tee_received`.
    pub name: &'static str,
    /// Unit, part of the full name: `datagrams`. `None`: a bare number.
    pub unit: Option<&'static str>,
    /// Its kind.
    pub kind: Kind,
    /// Its meaning and when it is absent, in one sentence with a full stop.
    pub help: &'static str,
    /// Names of its labels, in the order of their values.
    pub labels: &'static [&'static str],
}

/// The kind of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows; its full name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Always 1; the information is in its labels. Its full name ends in `_info`.
    Info,
}

impl Family {
    /// A family of one sample, without labels.
    pub const fn new(name: &'static str, unit: Option<&'static str>, kind: Kind, help: &'static str) -> Self {
        Self { name, unit, kind, help, labels: &[] }
    }

    /// The same with samples that have these labels.
    pub const fn by(self, labels: &'static [&'static str]) -> Self {
        Self { labels, ..self }
    }

    /// The name in queries, in either format.
    pub fn full_name(&self) -> String {
        let unit = self.unit.map(|unit| format!("_{unit}")).unwrap_or_default();
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Gauge => "",
            Kind::Info => "_info",
        };
        format!("{}{unit}{suffix}", self.name)
    }
}

/// The value of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A count.
    Whole(u64),
    /// A measure.
    Real(f64),
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Whole(count)
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Self {
        Self::Whole(count as u64)
    }
}

impl From<i64> for Value {
    fn from(difference: i64) -> Self {
        Self::Real(difference as f64)
    }
}

impl From<f64> for Value {
    fn from(measure: f64) -> Self {
        Self::Real(measure)
    }
}

impl From<bool> for Value {
    fn from(yes: bool) -> Self {
        Self::Whole(u64::from(yes))
    }
}

/// Samples of a family: values of its labels, and the count.
pub type Rows = Vec<(Vec<String>, Value)>;

/// Ledgers of one kind, each with the values of its labels.
pub type Labelled<'a, L> = [(Vec<String>, &'a L)];

/// A field of several that form one family: its label value, and its count.
type Part<L> = (&'static str, fn(&L) -> &dyn Counted);

/// A ledger declared by [`ledger!`](crate::ledger!).
pub trait Ledger: Sized {
    /// The value that identifies it among its kind.
    fn labels(&self) -> Vec<String>;

    /// Passes each family once, with the samples of all these ledgers.
    fn give(these: &Labelled<'_, Self>, give: &mut dyn FnMut(&'static Family, Rows));
}

/// All families of a ledger, in order.
pub fn families<L: Ledger>() -> Vec<Family> {
    let mut all = Vec::new();
    L::give(&[], &mut |family, _| all.push(*family));
    all
}

/// A value that is one sample or several.
pub trait Counted {
    /// The samples, each with the value of another label if there are several.
    fn samples(&self) -> Vec<(Option<String>, Value)>;
}

/// A value that is one sample.
macro_rules! counted {
    ($($type:ty),+) => {$(
        impl Counted for $type {
            fn samples(&self) -> Vec<(Option<String>, Value)> {
                vec![(None, (*self).into())]
            }
        }
    )+};
}

counted!(u64, usize, i64, f64, bool);

impl<C: Counted> Counted for Option<C> {
    fn samples(&self) -> Vec<(Option<String>, Value)> {
        self.iter().flat_map(C::samples).collect()
    }
}

impl<K: ToString> Counted for BTreeMap<K, u64> {
    fn samples(&self) -> Vec<(Option<String>, Value)> {
        self.iter().map(|(name, count)| (Some(name.to_string()), (*count).into())).collect()
    }
}

/// A value with ledgers in it: one or none, several, or several by name.
pub trait Ledgers {
    /// The type of the ledgers.
    type Of: Ledger;

    /// All ledgers, each with its name if it has one.
    fn all(&self) -> Vec<(Option<&String>, &Self::Of)>;
}

impl<L: Ledger> Ledgers for L {
    type Of = L;

    fn all(&self) -> Vec<(Option<&String>, &L)> {
        vec![(None, self)]
    }
}

impl<L: Ledger> Ledgers for Option<L> {
    type Of = L;

    fn all(&self) -> Vec<(Option<&String>, &L)> {
        self.iter().map(|one| (None, one)).collect()
    }
}

impl<L: Ledger> Ledgers for Vec<L> {
    type Of = L;

    fn all(&self) -> Vec<(Option<&String>, &L)> {
        self.iter().map(|one| (None, one)).collect()
    }
}

impl<L: Ledger> Ledgers for BTreeMap<String, L> {
    type Of = L;

    fn all(&self) -> Vec<(Option<&String>, &L)> {
        self.iter().map(|(name, one)| (Some(name), one)).collect()
    }
}

/// A count that several threads increment.
#[derive(Debug, Default)]
pub struct Shared(AtomicU64);

impl Shared {
    /// Adds to it.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Its current value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A copy with the current value, to count on separately.
impl Clone for Shared {
    fn clone(&self) -> Self {
        Self(self.get().into())
    }
}

impl PartialEq for Shared {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Serialize for Shared {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.get())
    }
}

impl Counted for Shared {
    fn samples(&self) -> Vec<(Option<String>, Value)> {
        self.get().samples()
    }
}

/// One count per name, found by its index among the names: for workers; a map in JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct By<N> {
    counts: Vec<(&'static str, u64)>,
    names: PhantomData<N>,
}

/// The names.
pub trait Names {
    /// In the order of the names.
    fn names() -> Vec<&'static str>;
}

impl<N> By<N> {
    /// Adds to the count at this index.
    ///
    /// # Panics
    /// There is no such index.
    pub fn add(&mut self, place: usize, count: u64) {
        self.counts[place].1 = self.counts[place].1.saturating_add(count);
    }

    /// All of them with their names.
    pub fn all(&self) -> &[(&'static str, u64)] {
        &self.counts
    }

    /// Their sum.
    pub fn sum(&self) -> u64 {
        self.counts.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }
}

impl<N: Names> Default for By<N> {
    fn default() -> Self {
        Self { counts: N::names().into_iter().map(|name| (name, 0)).collect(), names: PhantomData }
    }
}

/// # Panics
/// There is no such name.
impl<N> Index<&str> for By<N> {
    type Output = u64;

    fn index(&self, name: &str) -> &u64 {
        let found = self.counts.iter().find(|(known, _)| *known == name);
        &found.unwrap_or_else(|| panic!("no count of {name}")).1
    }
}

impl<N> Counted for By<N> {
    fn samples(&self) -> Vec<(Option<String>, Value)> {
        self.counts.iter().map(|(name, count)| (Some((*name).to_owned()), (*count).into())).collect()
    }
}

impl<N> Serialize for By<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.counts.iter().copied())
    }
}

/// Declares ledgers; see the example at the [module](crate::ledger).
///
/// A field is a key of JSON. `=> Counter "NAME" ["UNIT"] {LABELS}` (or `Gauge`) makes it a metric whose help is the field's comment: of a
/// number a sample, of a map one for each of its entries. With `["UNIT"] ["bytes"]` it is two, of the field's `datagrams` and `bytes`. `=> each` has ledgers in it, of which all is told as well. `by FIELD` names the
/// field that tells one ledger from others; its value is that of a label. What is in `together` are metrics of several fields, each by its name.
#[macro_export]
macro_rules! ledger {
    (@field $these:ident $give:ident $field:ident [$($help:literal)+] []) => {};
    (@field $these:ident $give:ident $field:ident [$($help:literal)+] [each]) => {
        $crate::ledger::inner($these, |this| &this.$field, $give);
    };
    (@field $these:ident $give:ident $field:ident [$($help:literal)+] [$kind:ident $metric:literal [$unit:literal] ["bytes"] {$($by:ident),+}]) => {{
        static FAMILY: $crate::ledger::Family = $crate::ledger!(@family [$($help)+] $kind $metric [$unit] {$($by),+});
        static BYTES: $crate::ledger::Family = $crate::ledger!(@family [$($help)+] $kind $metric ["bytes"] {$($by),+});
        $give(&FAMILY, $crate::ledger::rows($these, |this| &this.$field.datagrams));
        $give(&BYTES, $crate::ledger::rows($these, |this| &this.$field.bytes));
    }};
    (@field $these:ident $give:ident $field:ident [$($help:literal)+] [$($family:tt)+]) => {{
        static FAMILY: $crate::ledger::Family = $crate::ledger!(@family [$($help)+] $($family)+);
        $give(&FAMILY, $crate::ledger::rows($these, |this| &this.$field));
    }};
    (@called $part:ident) => { stringify!($part) };
    (@called $part:ident $called:literal) => { $called };
    (@family [$($help:literal)+] $kind:ident $metric:literal $([$unit:literal])? $({$($by:ident),+})?) => {
        $crate::ledger::Family {
            name: $metric,
            unit: $crate::ledger::first(&[$($unit)?]),
            kind: $crate::ledger::Kind::$kind,
            help: concat!($($help),+).trim_ascii(),
            labels: &[$($(stringify!($by)),+)?],
        }
    };
    ($(
        $(#[$about:meta])*
        pub struct $name:ident $(by $($label:ident),+)? {
            $($(#[doc = $help:literal])+ $field:ident: $type:ty $(=> $kind:ident $($metric:literal $([$unit:tt])* $({$($by:ident),+})?)?)?,)*
        } $(together {
            $($(#[doc = $help_of_all:literal])+ $kind_of_all:ident $metric_of_all:literal $([$unit_of_all:literal])? {$($by_of_all:ident),+}: $($part:ident $(as $called:literal)?),+;)*
        })?
    )*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
        pub struct $name {
            $($(#[doc = $help])+ pub $field: $type,)*
        }

        impl $crate::ledger::Ledger for $name {
            fn labels(&self) -> Vec<String> {
                vec![$($(self.$label.to_string()),+)?]
            }

            fn give(
                these: &$crate::ledger::Labelled<'_, Self>,
                give: &mut dyn FnMut(&'static $crate::ledger::Family, $crate::ledger::Rows),
            ) {
                $($crate::ledger!(@field these give $field [$($help)+] [$($kind $($metric $([$unit])* $({$($by),+})?)?)?]);)*
                $($({
                    static FAMILY: $crate::ledger::Family = $crate::ledger!(
                        @family [$($help_of_all)+] $kind_of_all $metric_of_all $([$unit_of_all])? {$($by_of_all),+}
                    );
                    give(&FAMILY, $crate::ledger::parts(these, &[$(($crate::ledger!(@called $part $($called)?), |this| &this.$part)),+]));
                })*)?
            }
        }
    )*};
}

/// The code of [`ledger!`](crate::ledger!) for a unit.
#[doc(hidden)]
pub const fn first(unit: &[&'static str]) -> Option<&'static str> {
    if let [unit, ..] = unit { Some(unit) } else { None }
}

/// Its code for a field: its samples in all these ledgers.
#[doc(hidden)]
pub fn rows<L, C: Counted>(these: &Labelled<'_, L>, field: impl Fn(&L) -> &C) -> Rows {
    let mut rows = Vec::new();
    for (labels, this) in these {
        let of = |(label, value): (Option<String>, Value)| (labels.iter().cloned().chain(label).collect(), value);
        rows.extend(field(this).samples().into_iter().map(of));
    }
    rows
}

/// Its code for several fields together.
#[doc(hidden)]
pub fn parts<L>(these: &Labelled<'_, L>, parts: &[Part<L>]) -> Rows {
    let mut rows = Vec::new();
    for (labels, this) in these {
        for (name, part) in parts {
            let of = |(_, value)| (labels.iter().cloned().chain([(*name).to_owned()]).collect(), value);
            rows.extend(part(this).samples().into_iter().map(of));
        }
    }
    rows
}

/// Its code for a field with ledgers in it.
#[doc(hidden)]
pub fn inner<L, I: Ledgers>(
    these: &Labelled<'_, L>,
    field: impl Fn(&L) -> &I,
    give: &mut dyn FnMut(&'static Family, Rows),
) {
    let mut inner = Vec::new();
    for (labels, this) in these {
        for (name, one) in field(this).all() {
            inner.push((labels.iter().cloned().chain(name.cloned()).chain(one.labels()).collect(), one));
        }
    }
    I::Of::give(&inner, give);
}

#[cfg(test)]
mod tests {
    // What `ledger!` declares is public.
    #![allow(unreachable_pub)]

    use serde_json::json;

    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    pub struct Colours;

    impl Names for Colours {
        fn names() -> Vec<&'static str> {
            vec!["red", "green"]
        }
    }

    ledger! {
        /// All.
        pub struct Total {
            /// Whether all is well.
            closed: bool => Gauge "weir_test_closed",
            /// What is there.
            own: Option<Part> => each,
            /// Others.
            parts: BTreeMap<String, Part> => each,
        }

        /// A part.
        pub struct Part by name {
            /// Who.
            name: String,
            /// Datagrams, of which
            /// some are large.
            sent: Shared => Counter "weir_test_sent" ["datagrams"] {of, name},
            /// By colour.
            colours: By<Colours> => Counter "weir_test_colours" {of, name, colour},
            /// Too late.
            late: u64,
        } together {
            /// By fate.
            Counter "weir_test_fates" {of, name, fate}: sent, late as "too_late";
        }
    }

    #[test]
    fn a_count_is_declared_once() {
        let mut part = Part { name: "a".into(), late: 2, ..Part::default() };
        part.sent.add(5);
        part.colours.add(1, 7);
        let total = Total { closed: true, own: None, parts: [("x".to_owned(), part.clone())].into() };
        let mut given = Vec::new();
        Total::give(&[(Vec::new(), &total)], &mut |family, rows| {
            let rows = rows.iter().map(|(labels, value)| format!("{} {value:?}", labels.join(","))).collect::<Vec<_>>();
            given.push((family.full_name(), rows.join("; ")));
        });
        let row = |name: &str, rows: &str| (name.to_owned(), rows.to_owned());
        assert_eq!(
            given[4..],
            [
                row("weir_test_sent_datagrams_total", "x,a Whole(5)"),
                row("weir_test_colours_total", "x,a,red Whole(0); x,a,green Whole(7)"),
                row("weir_test_fates_total", "x,a,sent Whole(5); x,a,too_late Whole(2)"),
            ]
        );
        assert_eq!(given[..2], [row("weir_test_closed", " Whole(1)"), row("weir_test_sent_datagrams_total", "")]);
        let sent = families::<Part>()[0];
        assert_eq!((sent.help, sent.labels), ("Datagrams, of which some are large.", &["of", "name"][..]));
        let json = json!({"name": "a", "sent": 5, "colours": {"red": 0, "green": 7}, "late": 2});
        assert_eq!((json!(part), part.colours["green"], part.colours.sum()), (json, 7, 7));
    }
}
