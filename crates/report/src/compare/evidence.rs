//! What two cells show about a column: a difference with its uncertainty, by the kind of the column.
//!
//! | kind | least standard deviation of a pair's difference that is believed |
//! |---|---|
//! | count | Poisson's, of both together; of what differs where the pairs share their seed |
//! | share | the binomial one of both (of the trials that differ where the pairs share their seed), more where failures come in rows |
//! | rate, amount | a message |
//! | duration, extreme | a microsecond, or one of its unit |
//! | share of the time | a tick of the clock |
//!
//! Few repeats that happen to agree prove no certain difference: the test takes the larger of this and what it sees. Of
//! shares the theory holds beyond the few repeats, and adds to their degrees of freedom.
//!
//! Positive values are held against one another by their ratios (logarithms). Where those of a side lie far apart, as of
//! transfers that collapse, ratios say little: then differences are looked at, too, each at half the level.

use weir_stats::paired::{self, Difference, Mean, Spread};

use super::{BETWEEN_RUNS, Basis, FEWEST_PAIRS};
use crate::cells::{self, Cell, Measured};
use crate::columns::{self, Column, Kind, Statistic, Trials};
use crate::record::{Record, Row};

/// A test that can be judged.
#[derive(Clone, Copy)]
pub(super) struct Test {
    pub(super) basis: Basis,
    pub(super) difference: Difference,
    /// Whether it is of logarithms.
    pub(super) logarithmic: bool,
    /// What it may come to without being one, on its scale.
    pub(super) least: f64,
    /// How many tests it is the best of.
    pub(super) tries: f64,
}

impl Test {
    fn new(basis: Basis, difference: Difference, logarithmic: bool, least: f64) -> Test {
        Test { basis, difference, logarithmic, least, tries: 1.0 }
    }

    /// The chance of as much if there is no difference.
    pub(super) fn p_value(&self) -> f64 {
        (self.difference.p_value(self.least) * self.tries).min(1.0)
    }

    /// Where the difference lies: it is rejected at this level if, and only if, 0 lies outside.
    pub(super) fn interval(&self, level: f64) -> (f64, f64) {
        self.difference.interval(1.0 - level / self.tries)
    }

    /// The clearer of two.
    fn or(self, other: Test) -> Test {
        let better = if other.p_value() < self.p_value() { other } else { self };
        Test { tries: self.tries + other.tries, ..better }
    }
}

/// How two runs are held against one another.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    /// Relative differences up to this are none.
    pub(super) least: f64,
    /// Whether the runs have one seed: repeats of the same number lose the same packets.
    pub(super) same_seed: bool,
    /// What the lab itself added to delays, the larger of the two, us: as much may come and go with the machine's mood,
    /// in all repeats alike.
    pub(super) own_delay_us: f64,
}

impl Terms {
    /// The largest difference of a column, of this size, that is none; of logarithms if `logarithmic`.
    fn least(self, column: &Column, size: f64, logarithmic: bool) -> f64 {
        let own = match (column.rests_on, column.unit) {
            (Statistic::Delay, "us") => self.own_delay_us,
            (Statistic::Delay, "ms") => self.own_delay_us / 1e3,
            _ => 0.0,
        };
        let least = (self.least * size).max(own);
        if logarithmic { (least / size).ln_1p() } else { least }
    }
}

/// Repeats of one number, and a column of them.
struct Pair<'a> {
    records: [&'a Record; 2],
    values: [f64; 2],
}

impl Pair<'_> {
    fn difference(&self) -> f64 {
        self.values[1] - self.values[0]
    }
}

/// Why a column cannot be tested.
pub(super) struct Untested {
    pub(super) reason: String,
    /// So many repeats would do, where these are what is wanting.
    pub(super) repeats_needed: Option<usize>,
}

impl From<String> for Untested {
    fn from(reason: String) -> Untested {
        Untested { reason, repeats_needed: None }
    }
}

/// Tests a column of two cells, or says why it cannot.
pub(super) fn test(a: &Cell<'_>, b: &Cell<'_>, column: &Column, terms: Terms) -> Result<Test, Untested> {
    let void = [(a, "A"), (b, "B")].map(|(cell, name)| (!cell.believes(column.name)).then_some(name));
    let void: Vec<&str> = void.into_iter().flatten().collect();
    if !void.is_empty() {
        return Err(format!("not valid in {}", void.join(" and ")).into());
    }
    for (cell, name) in [(a, "A"), (b, "B")] {
        if cell.measured(column.name).is_none() {
            return Err(format!("not measured in {name}").into());
        }
    }
    let pairs = pairs(a, b, column);
    if pairs.len() >= FEWEST_PAIRS {
        return by_repeats(&pairs, column, terms).ok_or_else(|| "not finite".to_owned().into());
    }
    let test = match column.kind {
        Kind::Share(trials) => shares_of_single_runs(a, b, column, trials, terms.least),
        _ => by_batches(a, b, column, terms),
    };
    test.ok_or_else(|| Untested {
        reason: format!("too few repeats ({} valid in both, {FEWEST_PAIRS} needed)", pairs.len()),
        repeats_needed: Some(FEWEST_PAIRS),
    })
}

/// The column in repeats of the same number that can be believed in both runs.
fn pairs<'a>(a: &Cell<'a>, b: &Cell<'a>, column: &Column) -> Vec<Pair<'a>> {
    let partner = |record: &Record| believed(b, column).find(|other| other.row.repeat == record.row.repeat);
    let pair = |record: &'a Record| {
        let other = partner(record)?;
        let values = [columns::number(record, column.name)?, columns::number(other, column.name)?];
        Some(Pair { records: [record, other], values })
    };
    believed(a, column).filter_map(pair).collect()
}

fn believed<'a>(cell: &Cell<'a>, column: &Column) -> impl Iterator<Item = &'a Record> {
    let statistic = column.rests_on;
    cell.records.iter().copied().filter(move |record| record.believes(statistic))
}

fn by_repeats(pairs: &[Pair<'_>], column: &Column, terms: Terms) -> Option<Test> {
    let [a, b] = [0, 1].map(|side| pairs.iter().map(|pair| pair.values[side]).collect::<Vec<_>>());
    let basis = Basis::Repeats(pairs.len());
    let spread = least_spread(pairs, column, terms.same_seed);
    // What standstills of both may have taken.
    let taken = pairs.iter().flat_map(|pair| pair.records).map(|record| cells::taken_by_standstills(record, column));
    let taken = taken.sum::<f64>() / pairs.len() as f64;
    if let Kind::Share(trials) = column.kind {
        let least = terms.least * rarer(pairs.iter().flat_map(|pair| pair.records), trials)? + taken;
        return Some(Test::new(basis, paired::paired(&a, &b, spread)?, false, least));
    }
    let least = terms.least(column, mean(&a).abs(), false) + taken;
    let linear = Test::new(basis, paired::paired(&a, &b, spread)?, false, least);
    if a.iter().chain(&b).any(|&value| value <= 0.0) {
        return Some(linear);
    }
    let [ln_a, ln_b] = [&a, &b].map(|values| values.iter().map(|value| value.ln()).collect::<Vec<_>>());
    let smaller = mean(&a).min(mean(&b));
    let spread = Spread { least: spread.least / smaller, ..spread };
    let least = terms.least(column, smaller, true) + taken / smaller;
    let ratios = Test::new(basis, paired::paired(&ln_a, &ln_b, spread)?, true, least);
    let far_apart = [&ln_a, &ln_b].iter().any(|values| deviation(values) > FAR_APART);
    Some(if far_apart { ratios.or(linear) } else { ratios })
}

/// A difference of a share is held against its rarer outcome: a loss that doubles matters, however much still arrives.
fn rarer<'a>(records: impl Iterator<Item = &'a Record>, trials: Trials) -> Option<f64> {
    let Tally { successes, trials } = tally(records, trials);
    (trials > 0.0).then(|| (successes / trials).clamp(0.0, 1.0)).map(|share| share.min(1.0 - share))
}

fn by_batches(a: &Cell<'_>, b: &Cell<'_>, column: &Column, terms: Terms) -> Option<Test> {
    let of_batches = |cell: &Cell<'_>| match cell.measured(column.name)? {
        Measured::Estimate(estimate) => Mean::of(&estimate),
        // What has no interval, and is the same in both, is not known to differ; nor is it known not to.
        _ => None,
    };
    let quantum = quantum(column, &a.first().row);
    // What correlation is left between batches is not seen: they are trusted no more than eight of them would be.
    let cautious = |mean: Mean| Mean { freedom: mean.freedom.min(MOST_FREEDOM), ..mean };
    let [a, b] = [of_batches(a)?, of_batches(b)?].map(|m| cautious(m.inflated(BETWEEN_RUNS).at_least(quantum)));
    let (difference, logarithmic, least) = match (a.ln(), b.ln()) {
        (Some(ln_a), Some(ln_b)) => (paired::welch(ln_a, ln_b), true, terms.least(column, a.value.min(b.value), true)),
        _ => (paired::welch(a, b), false, terms.least(column, a.value.abs(), false)),
    };
    Some(Test::new(Basis::Batches, difference, logarithmic, least))
}

fn shares_of_single_runs(a: &Cell<'_>, b: &Cell<'_>, column: &Column, trials: Trials, least: f64) -> Option<Test> {
    let [of_a, of_b] = [a, b].map(|cell| share_of_single_runs(cell, column, trials));
    let difference = paired::welch(of_a?.inflated(BETWEEN_RUNS), of_b?.inflated(BETWEEN_RUNS));
    let taken = [a, b]
        .map(|cell| mean(&believed(cell, column).map(|r| cells::taken_by_standstills(r, column)).collect::<Vec<_>>()));
    let least = least * rarer(believed(a, column).chain(believed(b, column)), trials)? + taken[0] + taken[1];
    Some(Test::new(Basis::Batches, difference, false, least))
}

/// A share with its binomial error, or that of its batches where failures come in rows.
fn share_of_single_runs(cell: &Cell<'_>, column: &Column, of: Trials) -> Option<Mean> {
    let value = cell.measured(column.name)?.value();
    let Tally { successes, trials } = tally(believed(cell, column), of);
    let independent = binomial_variance(successes, trials) / trials;
    let records: Vec<&Record> = believed(cell, column).collect();
    let error = independent.max(in_rows(&records, of).unwrap_or(0.0) / records.len().max(1) as f64).sqrt();
    (trials > 0.0).then_some(Mean { value, error, freedom: MOST_FREEDOM })
}

/// The variance of a record's share by its batches: more than the binomial one where failures come in rows. Batches of the
/// trials tell that alone; those of the rate hold the schedule as well (messages at random, a sender that is late), which
/// would hide what differs. `None`: nobody has looked.
fn in_rows(records: &[&Record], of: Trials) -> Option<f64> {
    let by_rate = |record: &Record| {
        let mean = Mean::of(record.estimates.get(of.rate)?)?;
        let Tally { successes, trials } = tally([record].into_iter(), of);
        Some(mean.error / mean.value * successes / trials).filter(|&error| error > 0.0)
    };
    let variance = |record: &&Record| {
        let by_trials = record.estimates.get(of.batches).and_then(Mean::of).map(|mean| mean.error);
        by_trials.or_else(|| by_rate(record)).map(|error| error * error).filter(|variance| variance.is_finite())
    };
    let variances: Vec<f64> = records.iter().filter_map(variance).collect();
    (!variances.is_empty()).then(|| mean(&variances))
}

/// Successes and trials of several records.
struct Tally {
    successes: f64,
    trials: f64,
}

fn tally<'a>(records: impl Iterator<Item = &'a Record>, of: Trials) -> Tally {
    records.fold(Tally { successes: 0.0, trials: 0.0 }, |sum, record| Tally {
        successes: sum.successes + columns::number(record, of.successes).unwrap_or(0.0),
        trials: sum.trials + columns::number(record, of.trials).unwrap_or(0.0),
    })
}

/// Of one trial. A failure and a success are added: that none was seen does not make none certain (Agresti and Caffo,
/// "Simple and effective confidence intervals for proportions and differences of proportions", 2000).
fn binomial_variance(successes: f64, trials: f64) -> f64 {
    let share = ((successes + 1.0) / (trials + 2.0)).clamp(0.0, 1.0);
    share * (1.0 - share)
}

/// See the table above. Pairs of one seed share their draws, so that what they have in common is no scatter; at least
/// as many events as they differ by are not in common (as in McNemar's test), and those are independent.
fn least_spread(pairs: &[Pair<'_>], column: &Column, same_seed: bool) -> Spread {
    let over_pairs = |of: &dyn Fn(&Pair<'_>) -> f64| mean(&pairs.iter().map(of).collect::<Vec<_>>());
    let (variance, freedom) = match column.kind {
        Kind::Count if same_seed => (over_pairs(&|pair| pair.difference().abs()), 0.0),
        Kind::Count => (over_pairs(&|pair| pair.values[0].abs() + pair.values[1].abs()), 0.0),
        Kind::Share(trials) => {
            let records: Vec<&Record> = pairs.iter().flat_map(|pair| pair.records).collect();
            let all = tally(records.iter().copied(), trials);
            let one = binomial_variance(all.successes, all.trials);
            let independent = over_pairs(&|pair| {
                let [a, b] = pair.records.map(|record| columns::number(record, trials.trials).unwrap_or(1.0).max(1.0));
                if same_seed { pair.difference().abs() / a.min(b) } else { one / a + one / b }
            });
            let of_one = one * records.len() as f64 / all.trials.max(1.0);
            let events = over_pairs(&|pair| pair.difference().abs()) * all.trials / 2.0;
            // What differs tells how much scatters: a few events tell that poorly.
            let freedom = if same_seed { (events / FEW_EVENTS).min(MOST_FREEDOM) } else { MOST_FREEDOM };
            match in_rows(&records, trials) {
                // Nobody has looked whether they are independent.
                None => (independent, 0.0),
                Some(rows) => (independent * (rows / of_one).max(1.0), freedom),
            }
        }
        _ => (quantum(column, &pairs[0].records[0].row).powi(2), 0.0),
    };
    Spread { least: variance.sqrt(), freedom }
}

/// The least step of a column, in its unit: a message in rates and amounts, a microsecond of time, a tick in shares of
/// it. 0: none is known.
fn quantum(column: &Column, row: &Row) -> f64 {
    let (message_mbit, window) = (row.payload_bytes as f64 * 8e-6, row.duration_s);
    match (column.kind, column.unit) {
        (Kind::Rate | Kind::TimeShare, _) if window <= 0.0 => 0.0,
        (Kind::Rate, "Mbit/s") => message_mbit / window,
        (Kind::Rate, _) => 1.0 / window,
        (Kind::TimeShare, "%") => 100.0 * TICK / window,
        (Kind::TimeShare, _) => TICK / window,
        (Kind::Amount, "bytes") => row.payload_bytes as f64,
        (Kind::Duration | Kind::Extreme, "ms") => 1e-3,
        (Kind::Extreme, "%") => 0.0,
        (Kind::Duration | Kind::Extreme | Kind::Amount, _) => 1.0,
        (Kind::Setting | Kind::Flag | Kind::Count | Kind::Share(_) | Kind::Level | Kind::Accuracy, _) => 0.0,
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The standard deviation of single values.
fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)).sqrt()
}

/// Events that are worth a degree of freedom.
const FEW_EVENTS: f64 = 8.0;

/// From this standard deviation of logarithms on, ratios are not all that is looked at.
const FAR_APART: f64 = 0.3;

/// Ticks by which Linux tells processor time, s (USER_HZ, proc_stat(5)).
const TICK: f64 = 0.01;

/// Degrees of freedom of a single run, at most.
const MOST_FREEDOM: f64 = 7.0;
