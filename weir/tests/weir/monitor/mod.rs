//! `weir monitor`: stations, servers, viewers and archives, in namespaces, against decoders that share no code.

mod archive;
mod check;
mod endurance;
mod outputs;
mod page;
mod serve;
mod station;
mod together;
mod view;

use weir_testbed::{together, turn};

#[test]
fn what_takes_its_time_comes_right() {
    let _turn = turn();
    together(&[
        ("a client of which nothing is heard", together::clients::one_of_which_nothing_is_heard_is_told_so),
        ("a station that comes and goes", endurance::a_station_comes_and_goes_and_nothing_grows_or_lacks),
        ("names that fit no channel", serve::names_that_fit_no_channel_are_told),
        ("one way that loses", together::losses::one_way_that_loses_one_in_a_hundred_costs_as_much),
        ("one of two ways that loses", together::losses::what_one_way_loses_comes_on_the_other),
        ("two ways that lose", together::losses::two_ways_that_lose_one_in_a_hundred_cost_next_to_nothing),
    ]);
}
