//! Who is let in, who must wait, who has to go.

use weir_wire::sflow::DataSource;

use super::{Agents, Limits, MILLISECOND, SECOND, Verdict, agents, who};

const SMALL: Limits = Limits {
    agents: 2_000,
    newcomers: 500,
    sources: 3_000,
    sources_of_agent: 20,
    sources_of_unproven: 4,
    silence: 900 * SECOND,
    unproven_silence: 180 * SECOND,
};

fn send(agents: &mut Agents<u32>, now: u64, agent: u32, turn: u32) -> Verdict {
    agents.datagram(now, who(agent), turn, (now / MILLISECOND) as u32)
}

/// 10,000 forged addresses in a second, again and again, while 100 agents go on.
#[test]
fn a_flood_of_forged_agents_pushes_nobody_out() {
    let mut agents = agents(Limits { agents: 4_000, ..SMALL });
    let mut now = 1_000 * SECOND;
    for turn in 0..5 {
        for agent in 0..100 {
            assert!(matches!(send(&mut agents, now, agent, turn), Verdict::Placed(_)));
        }
        now += SECOND;
    }
    let mut forged = 1_000_000;
    for turn in 5..65 {
        for _ in 0..10_000 {
            forged += 1;
            now += SECOND / 10_000;
            send(&mut agents, now, forged, 77);
        }
        for agent in 0..100 {
            assert!(matches!(send(&mut agents, now, agent, turn), Verdict::Placed(_)), "agent {agent} in turn {turn}");
        }
        agents.sweep(now, 1_000);
    }
    let newcomers = agents.newcomers();
    // The credit of the first second, and what it grows by.
    assert!(agents.len() <= 100 + 1_024 + 16 * 62, "{}", agents.len());
    assert_eq!(newcomers.len(), 500);
    let taken = agents.len() as u64 - 100;
    assert_eq!((newcomers.evicted, agents.totals().probation), (600_000 - taken - 500, 600_000 - taken));
    // They are forgotten in minutes, the others not.
    for _ in 0..200 {
        now += SECOND;
        agents.sweep(now, 1_000);
    }
    assert_eq!(agents.len(), 100);
}

/// All 1,800 at once, as when the collector begins: those without credit are in with the first datagram after a second.
#[test]
fn real_newcomers_get_in() {
    let mut agents = agents(Limits { newcomers: 4_096, ..SMALL });
    for turn in 0..3 {
        for agent in 0..1_800 {
            send(&mut agents, 1_000 * SECOND + u64::from(turn) * SECOND, agent, turn);
        }
    }
    assert_eq!((agents.len(), agents.newcomers().len()), (1_800, 0));
}

#[test]
fn a_full_table_refuses_and_forgets_by_age_alone() {
    let mut agents = agents(Limits { agents: 50, ..SMALL });
    let mut now = 1_000 * SECOND;
    for turn in 0..3 {
        for agent in 0..60 {
            send(&mut agents, now, agent, turn);
        }
        now += SECOND;
    }
    assert_eq!((agents.len(), agents.totals().refused_agents), (50, 30));
    now += 901 * SECOND;
    agents.sweep(now, 50);
    assert_eq!((agents.len(), agents.totals().expired_agents), (0, 50));
    assert!(matches!(send(&mut agents, now, 55, 9), Verdict::Placed(_)));
}

#[test]
fn data_sources_have_limits_of_an_agent_and_of_all() {
    let mut agents = agents(Limits { sources: 100, ..SMALL });
    let sources = |agents: &mut Agents<u32>, now, agent, turn| match send(agents, now, agent, turn) {
        Verdict::Placed(placed) => {
            (0..50).filter(|&index| agents.source(&placed, DataSource { class: 0, index }).is_some()).count()
        }
        other => panic!("{other:?}"),
    };
    let now = 1_000 * SECOND;
    // Nobody knows this one.
    assert_eq!(sources(&mut agents, now, 1, 1), 4);
    assert_eq!(sources(&mut agents, now + 2 * SECOND, 1, 2), 20);
    for agent in 2..10 {
        sources(&mut agents, now, agent, 1);
        sources(&mut agents, now + 2 * SECOND, agent, 2);
    }
    assert_eq!(agents.source_count(), 100);
    let ledger = agents.agent(&who(1)).unwrap().ledger();
    assert_eq!(ledger.refused_sources, 46 + 30);
    // Those that are silent make room, also where their agent goes on.
    let later = now + 903 * SECOND;
    assert!(sources(&mut agents, later - SECOND, 1, 3) > 0);
    for _ in 0..20 {
        agents.sweep(later + 500 * SECOND, 100);
    }
    let known = agents.agent(&who(1)).map_or(0, |agent| agents.sources_of(agent).count());
    assert_eq!((agents.len(), agents.source_count(), known), (1, 20, 20));
}

/// What the table costs, an agent with 20 data sources; and that the cost of a look does not grow with them.
#[test]
fn sizes_are_small() {
    let agent = size_of::<super::super::Agent>() + size_of::<super::super::Stream>();
    let source = size_of::<super::super::Source<[usize; 2]>>();
    println!("agent {agent} B, data source {source} B");
    assert!(agent <= 640 && source <= 96, "{agent} {source}");
}
