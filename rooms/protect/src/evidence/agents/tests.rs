//! Who is believed, over time.

use super::*;

const SECOND: u64 = 1_000_000_000;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn exporter(agent: &str, from: Option<&str>, sub_agents: Option<&[u32]>) -> Exporter {
    let from = from.map(|from| from.parse().unwrap());
    Exporter { agent: agent.parse().unwrap(), from, sub_agents: sub_agents.map(<[u32]>::to_vec) }
}

fn agents() -> Agents {
    let agents = vec![exporter("10.0.0.0/24", None, None), exporter("10.1.0.1/32", Some("10.9.0.0/16"), None)];
    Agents::new(&Settings { agents, ..Settings::default() })
}

fn stream(sub_agent: u32, run: u32) -> Stream {
    Stream { sub_agent, run }
}

fn heard(
    agents: &mut Agents,
    second: u64,
    agent: &str,
    of: Stream,
    from: &str,
    trouble: Option<Trouble>,
) -> Option<Doubt> {
    agents.hear(&Heard {
        time: second * SECOND,
        agent: ip(agent),
        stream: of,
        from: ip(from),
        trouble,
        pause: 0,
        is_known: false,
    });
    let doubt = agents.doubt(second * SECOND, ip(agent), of);
    assert_eq!(doubt.is_none(), agents.is_believed(second * SECOND, ip(agent), of));
    doubt
}

#[test]
fn only_listed_agents_from_their_address_are_believed() {
    let mut agents = agents();
    let of = |run| stream(0, run);
    let stranger = |agent: &str, from: &str| Some(Doubt::Stranger { agent: ip(agent), from: ip(from) });
    assert_eq!(agents.doubt(0, ip("10.0.0.1"), of(1)), stranger("10.0.0.1", "0.0.0.0"), "never heard");
    assert_eq!(heard(&mut agents, 1, "10.0.0.1", of(1), "10.0.0.1", None), None);
    assert_eq!(heard(&mut agents, 1, "10.1.0.1", of(1), "10.9.3.4", None), None);
    assert_eq!(heard(&mut agents, 1, "10.1.0.1", of(2), "10.1.0.1", None), stranger("10.1.0.1", "10.1.0.1"));
    assert_eq!(heard(&mut agents, 1, "10.2.0.1", of(1), "10.2.0.1", None), stranger("10.2.0.1", "10.2.0.1"));
    // What comes from elsewhere says nothing of what comes from the agent.
    assert_eq!(heard(&mut agents, 2, "10.0.0.1", of(2), "10.0.0.2", None), stranger("10.0.0.1", "10.0.0.2"));
    assert_eq!(heard(&mut agents, 2, "10.0.0.1", stream(5, 3), "10.0.0.2", None), stranger("10.0.0.1", "10.0.0.2"));
    assert_eq!(agents.doubt(3 * SECOND, ip("10.0.0.1"), of(1)), None);
    // The list changes.
    agents.adopt(&Settings::default());
    assert_eq!(agents.doubt(63 * SECOND, ip("10.0.0.1"), of(1)), stranger("10.0.0.1", "10.0.0.1"));
}

#[test]
fn a_stream_that_is_in_trouble_is_doubted_for_a_while_and_no_other() {
    let mut agents = agents();
    heard(&mut agents, 1, "10.0.0.1", stream(0, 1), "10.0.0.1", None);
    let found = heard(&mut agents, 1, "10.0.0.1", stream(0, 2), "10.0.0.1", Some(Trouble::Streams(2)));
    assert!(matches!(&found, Some(Doubt::Sequence { what, .. }) if what.starts_with("2 streams")), "{found:?}");
    assert_eq!(agents.doubt(2 * SECOND, ip("10.0.0.1"), stream(0, 1)), None);
    assert!(agents.doubt(61 * SECOND, ip("10.0.0.1"), stream(0, 2)).is_some());
    assert_eq!(agents.doubt(62 * SECOND, ip("10.0.0.1"), stream(0, 2)), None);
}

#[test]
fn a_sub_agent_beside_another_is_on_probation() {
    let mut agents = agents();
    let mut hear = |second, sub_agent| {
        let of = stream(sub_agent, sub_agent + 1);
        heard(&mut agents, second, "10.0.0.1", of, "10.0.0.1", None).is_none()
    };
    assert!(hear(1, 0) && !hear(40, 5) && hear(40, 0));
    for second in (50..640).step_by(10) {
        assert!(hear(second, 0) && !hear(second, 5), "{second}");
    }
    assert!(hear(640, 5));
    // A silence begins it anew.
    assert!(!hear(800, 5));
    // Of several that are heard at once nobody knows which was there first.
    let mut at_once = |second, sub_agent| {
        let of = stream(sub_agent, sub_agent + 1);
        heard(&mut agents, second, "10.1.0.1", of, "10.9.0.1", None).is_none()
    };
    assert!(at_once(1_000, 0) && !at_once(1_001, 5) && !at_once(1_001, 0) && !at_once(1_099, 0));
    for second in (1_100..1_600).step_by(50) {
        assert!(!at_once(second, 0) && !at_once(second, 5), "{second}");
    }
    assert!(at_once(1_601, 0));
}

#[test]
fn sub_agents_that_are_named_need_no_probation_and_no_other_is_believed() {
    let agents = vec![exporter("10.0.0.1/32", None, Some(&[0, 3]))];
    let mut agents = Agents::new(&Settings { agents, ..Settings::default() });
    for (sub_agent, is_believed) in [(5, false), (0, true), (3, true)] {
        let of = stream(sub_agent, sub_agent + 1);
        let doubt = heard(&mut agents, 1, "10.0.0.1", of, "10.0.0.1", None);
        assert_eq!(doubt.is_none(), is_believed, "{sub_agent}");
    }
    assert!(agents.doubt(u64::MAX - 1, ip("10.0.0.1"), stream(5, 6)).is_some());
}

#[test]
fn an_address_that_nobody_has_used_is_on_probation() {
    let mut agents = agents();
    let of = stream(0, 1);
    assert_eq!(heard(&mut agents, 1, "10.0.0.1", of, "10.0.0.1", None), None);
    // The first round: all that there are.
    assert_eq!(heard(&mut agents, 31, "10.0.0.2", of, "10.0.0.2", None), None);
    let found = heard(&mut agents, 32, "10.0.0.3", of, "10.0.0.3", None);
    assert!(matches!(&found, Some(Doubt::Sequence { what, .. }) if what.contains("is new in a network")), "{found:?}");
    assert!(heard(&mut agents, 631, "10.0.0.3", of, "10.0.0.3", None).is_some());
    assert_eq!(heard(&mut agents, 632, "10.0.0.3", of, "10.0.0.3", None), None);
    // Named by itself, or there before the program began.
    assert_eq!(heard(&mut agents, 640, "10.1.0.1", of, "10.9.3.4", None), None);
    let (time, agent) = (640 * SECOND, ip("10.0.0.4"));
    agents.hear(&Heard { time, agent, stream: of, from: agent, trouble: None, pause: 0, is_known: true });
    assert_eq!(agents.doubt(time, agent, of), None);
}

#[test]
fn agents_count_as_long_as_they_are_heard_and_believed() {
    let mut agents = agents();
    assert_eq!(agents.believed(0), 0);
    for (second, agent, from, run) in [
        (1, "10.0.0.1", "10.0.0.1", 1),
        (1, "10.0.0.1", "10.0.0.1", 2),
        (2, "10.0.0.2", "10.0.0.9", 1),
        (60, "10.1.0.1", "10.9.3.4", 1),
    ] {
        heard(&mut agents, second, agent, stream(0, run), from, None);
    }
    let believed = |second: u64| agents.believed(second * SECOND);
    assert_eq!((believed(60), believed(121), believed(122), believed(181)), (2, 2, 1, 0));
}

/// An agent is silent when it is for longer than it is otherwise; whatever it tells shows that it is not.
#[test]
fn an_agent_that_falls_silent_is_heard_no_more_within_a_few_of_its_pauses() {
    for (pause, until) in [(0, 120), (SECOND / 50, 30), (5 * SECOND, 30), (20 * SECOND, 70), (60 * SECOND, 120)] {
        let mut agents = agents();
        let (agent, of) = (ip("10.0.0.1"), stream(0, 1));
        let heard = |time: u64, pause: u64, trouble: Option<Trouble>| Heard {
            time,
            agent,
            stream: of,
            from: agent,
            trouble,
            pause,
            is_known: false,
        };
        agents.hear(&heard(SECOND, pause, None));
        let shown =
            |agents: &Agents, second: u64| (agents.believed(second * SECOND), agents.is_silent(second * SECOND, agent));
        assert_eq!((shown(&agents, 1 + until), shown(&agents, 2 + until)), ((1, false), (0, true)), "{pause}");
        assert!(agents.tells(200 * SECOND, agent, of) && agents.is_heard(200 * SECOND, agent, 199 * SECOND));
        assert_eq!((shown(&agents, 200 + until), shown(&agents, 201 + until)), ((1, false), (0, true)), "{pause}");
        // Nor is one heard whose word does not count.
        agents.hear(&heard(400 * SECOND, pause, Some(Trouble::Jump)));
        assert_eq!(shown(&agents, 401), (0, true));
    }
    assert!(agents().is_silent(0, ip("10.0.0.1")), "never heard");
}

#[test]
fn that_somebody_else_speaks_is_told_once_in_a_while() {
    let mut agents = agents();
    let mut told = 0;
    for second in 0..200 {
        let trouble = (second >= 10).then_some(Trouble::Speakers(Sign::Content));
        let (time, agent) = (second * SECOND, ip("10.0.0.1"));
        let of = stream(0, 1 + second as u32 % 3);
        let heeded = agents.hear(&Heard { time, agent, stream: of, from: agent, trouble, pause: 0, is_known: false });
        told += u32::from(heeded.is_news);
        assert_eq!(agents.is_in_doubt(time, agent), second >= 10);
        let elsewhere = Heard { time, agent, stream: of, from: ip("10.0.0.9"), trouble, pause: 0, is_known: false };
        assert!(!agents.hear(&elsewhere).is_news);
    }
    assert_eq!(told, 4);
}

/// Whoever is found out may have spoken since the agent's datagram before, or the one before that.
#[test]
fn a_stream_that_is_found_out_was_not_to_be_believed_since_a_while() {
    for (pause, since) in [(0, 10), (100_000_000, 10), (4 * SECOND, 10), (20 * SECOND, 40), (90 * SECOND, 120)] {
        let mut agents = agents();
        let mut hear = |second: u64, run: u32, trouble: Option<Trouble>| {
            let (time, agent) = (second * SECOND, ip("10.0.0.1"));
            let of = stream(0, run);
            let heeded = agents.hear(&Heard { time, agent, stream: of, from: agent, trouble, pause, is_known: false });
            heeded.since.map(|since| second - since / SECOND)
        };
        let two = Some(Trouble::Speakers(Sign::Content));
        assert_eq!((hear(1, 1, None), hear(300, 1, None)), (None, None));
        // A stream that was never believed takes nobody's word back.
        assert_eq!(hear(301, 2, Some(Trouble::Streams(2))), None);
        assert_eq!((hear(302, 1, two), hear(303, 1, two)), (Some(since), None), "{pause}");
        assert_eq!((hear(400, 1, None), hear(401, 1, two)), (None, Some(since)), "believed again");
    }
}

#[test]
fn strangers_do_not_push_out_who_is_believed() {
    let mut agents = agents();
    heard(&mut agents, 1, "10.0.0.1", stream(0, 0), "10.0.0.1", None);
    for number in 0..2 * STREAMS as u32 {
        // Half of them in the agent's own name.
        let agent = if number % 2 == 0 { IpAddr::V4(Ipv4Addr::from(0xc000_0000 + number)) } else { ip("10.0.0.1") };
        let from = ip("192.0.2.1");
        agents.hear(&Heard {
            time: SECOND * 2,
            agent,
            stream: stream(0, number + 1),
            from,
            trouble: None,
            pause: 0,
            is_known: false,
        });
    }
    assert_eq!(agents.known.len(), STREAMS);
    assert_eq!(agents.evicted, STREAMS as u64 + 1);
    assert_eq!(agents.doubt(3 * SECOND, ip("10.0.0.1"), stream(0, 0)), None);
}
