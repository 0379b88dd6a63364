//! How the control side's work grows with the number of destinations, rules and members: at most by a little more than
//! their number. Exponents are tested, not times: a slow machine has the same.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use crate::config::{Config, Local};
use weir_forward::counters::InUse;
use weir_forward::plan::Plan;

/// The slope of log(work) over log(size), by least squares; of the work's processor time, the least of several.
fn exponent(mut work: impl FnMut(usize) -> Box<dyn FnMut()>) -> f64 {
    let points = SIZES.map(|size| {
        let mut work = work(size);
        let mut time = || {
            let before = used();
            work();
            used() - before
        };
        let least = (0..5).map(|_| time()).min().unwrap_or_default();
        ((size as f64).ln(), least.as_secs_f64().max(1e-9).ln())
    });
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let over: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    over / points.iter().map(|point| (point.0 - x).powi(2)).sum::<f64>()
}

fn used() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into()
}

/// As many listeners' rules, destinations and members as said, each with a name, every tenth in a group.
fn document(size: usize) -> String {
    let mut text = "[[listener]]\naddress = \"0.0.0.0:9000\"\nname = \"in\"\n".to_owned();
    let mut members = String::new();
    for number in 0..size {
        let address = Ipv4Addr::from_bits(0x0a00_0000 + number as u32);
        let net = Ipv4Addr::from_bits(0x1400_0000 + ((number as u32) << 8));
        write!(text, "[[destination]]\nname = \"to {number}\"\nto = \"{address}:514\"\n").unwrap();
        write!(text, "[[rule]]\nname = \"of {number}\"\nfrom = \"{net}/24\"\nto = \"to {number}\"\n").unwrap();
        if number % 10 == 0 {
            write!(members, "\"to {number}\",").unwrap();
        }
    }
    text + &format!("[[group]]\nname = \"all\"\npolicy = \"hash\"\nmembers = [{members}]\n")
}

fn plan(size: usize) -> Plan {
    let config = Config::read("tee.toml", &document(size), &Local::default()).unwrap();
    Plan::build(Arc::new(config.settings), &BTreeMap::new(), None)
}

#[test]
fn reading_a_file_is_linear() {
    let exponent = exponent(|size| {
        let text = document(size);
        Box::new(move || drop(Config::read("tee.toml", &text, &Local::default()).unwrap()))
    });
    assert!(exponent < LINEAR, "{exponent}");
}

#[test]
fn a_plan_from_the_one_before_is_linear() {
    let exponent = exponent(|size| {
        let mut plan = plan(size);
        Box::new(move || plan = Plan::build(Arc::clone(&plan.settings), &BTreeMap::new(), Some(&plan)))
    });
    assert!(exponent < LINEAR, "{exponent}");
}

#[test]
fn a_ledger_is_linear() {
    let exponent = exponent(|size| {
        let plan = plan(size);
        Box::new(move || {
            let in_use = InUse {
                outlets: plan.outlets.iter().map(|outlet| &outlet.book).collect(),
                rules: plan.rules.iter().map(|rule| &rule.book).collect(),
                ..InUse::default()
            };
            assert_eq!(
                plan.books
                    .ledger(&in_use, |worker, copy| plan.books.turns(worker).read(copy).unwrap())
                    .destinations
                    .len(),
                plan.outlets.len()
            );
        })
    });
    assert!(exponent < LINEAR, "{exponent}");
}

#[test]
fn the_way_of_a_source_is_found_alike_among_any_number_of_rules() {
    let exponent = exponent(|size| {
        let (plan, mut found) = (plan(size), Vec::new());
        Box::new(move || {
            for source in 0..20_000_u32 {
                // Spread over what the rules take, and as much again.
                let source = source.wrapping_mul(0x9e37_79b9) % (size as u32 * 2);
                let source: IpAddr = Ipv4Addr::from_bits(0x1400_0000 + (source << 8)).into();
                plan.matcher.matching(0, source, &mut found);
            }
        })
    });
    assert!(exponent < LOGARITHMIC, "{exponent}");
}

const SIZES: [usize; 4] = [250, 500, 1_000, 2_000];

/// Sorting, and caches that are left behind or lost to neighbours, are in it; squares are not.
const LINEAR: f64 = 1.6;

const LOGARITHMIC: f64 = 0.5;
