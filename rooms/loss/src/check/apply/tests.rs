use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use anyhow::bail;
use proptest::prelude::*;

use super::*;
use crate::places::Place;

/// Settings and a file of changes that survive the program, which ends at a chosen step.
#[derive(Clone, Default)]
struct World {
    settings: Rc<RefCell<BTreeMap<String, String>>>,
    /// What is on disk.
    text: Rc<RefCell<Option<String>>>,
    /// Steps until the program is killed.
    left: Rc<Cell<Option<usize>>>,
}

struct Disk(World);

struct Settings(World);

impl World {
    fn new(settings: &[(&str, &str)]) -> World {
        let world = World::default();
        *world.settings.borrow_mut() =
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        world
    }

    /// A step: writing the file or a setting. `Err`: killed before it; nothing happens any more.
    fn step(&self) -> Result<()> {
        match self.left.get() {
            Some(0) => bail!("killed"),
            Some(left) => self.left.set(Some(left - 1)),
            None => {}
        }
        Ok(())
    }

    fn values(&self) -> BTreeMap<String, String> {
        self.settings.borrow().clone()
    }

    fn apply(&self, findings: &[Finding]) -> Result<Vec<Applied>> {
        apply(findings, None, &mut Settings(self.clone()), &mut self.changes())
    }

    fn undo(&self) -> Result<Vec<Undone>> {
        undo(&mut Settings(self.clone()), &mut self.changes(), &changes::boot())
    }

    fn changes(&self) -> Changes<Disk> {
        Changes::of(Disk(self.clone()), Path::new("j"), self.text.borrow().as_deref()).unwrap()
    }
}

impl Storage for Disk {
    fn write(&mut self, text: &str) -> Result<()> {
        self.0.step()?;
        *self.0.text.borrow_mut() = Some(text.to_owned());
        Ok(())
    }
}

impl Machine for Settings {
    fn home(&mut self, _: Option<&Namespace>, _: &Setting) -> Result<Namespace> {
        Ok(Namespace { name: "here".into(), inode: 1, cookie: None })
    }

    fn read(&mut self, _: &Namespace, setting: &Setting) -> Result<Option<String>> {
        Ok(self.0.settings.borrow().get(&setting.to_string()).cloned())
    }

    fn write(&mut self, _: &Namespace, setting: &Setting, value: &str) -> Result<()> {
        self.0.step()?;
        if value == "refused" {
            bail!("set {setting}: invalid argument");
        }
        let value = match setting {
            // The next multiple of ten, as a driver might round; at most 50.
            Setting::Ring { .. } => value.parse::<u64>()?.next_multiple_of(10).min(50).to_string(),
            _ => value.to_owned(),
        };
        self.0.settings.borrow_mut().insert(setting.to_string(), value);
        Ok(())
    }
}

fn finding(setting: Setting, value: &str) -> Finding {
    Finding {
        name: "test",
        place: Place::ReceiveBuffer,
        title: Place::ReceiveBuffer.row().title,
        what: String::new(),
        evidence: Vec::new(),
        need: String::new(),
        command: String::new(),
        cost: String::new(),
        changes: vec![Change { setting, value: value.to_owned() }],
    }
}

fn sysctl(name: &str, value: &str) -> Finding {
    finding(Setting::sysctl(name), value)
}

fn ring(value: &str) -> Finding {
    finding(Setting::Ring { interface: "eth0".into() }, value)
}

const RING: &str = "receive ring of eth0";

fn world() -> World {
    World::new(&[("net.a", "1"), ("net.b", "2"), (RING, "20")])
}

fn findings() -> Vec<Finding> {
    vec![sysctl("net/a", "10"), sysctl("net/b", "20"), ring("33")]
}

#[test]
fn what_is_changed_is_put_back() {
    let world = world();
    let before = world.values();
    let applied = world.apply(&findings()).unwrap();
    let verdicts: Vec<_> = applied.iter().map(|change| (change.verdict, &*change.old, &*change.now)).collect();
    assert_eq!(verdicts, [("1", "10"), ("2", "20"), ("20", "40")].map(|(old, now)| (Verdict::Changed, old, now)));
    let undone = world.undo().unwrap();
    let how: Vec<_> = undone.iter().map(|change| (change.setting.to_string(), change.how)).collect();
    assert_eq!(how, [RING, "net.b", "net.a"].map(|setting| (setting.to_owned(), Some(Settled::Undone))));
    assert_eq!(world.values(), before);
    assert!(world.undo().unwrap().is_empty());
}

#[test]
fn verdicts() {
    let apply = |finding: Finding| {
        let world = world();
        let applied = world.apply(&[finding]).unwrap();
        assert_eq!(applied[0].verdict == Verdict::Changed, !world.changes().made().is_empty());
        (applied[0].verdict, applied[0].now.clone(), applied[0].detail.clone())
    };
    assert_eq!(apply(sysctl("net/a", "1")).0, Verdict::Unneeded);
    let refused = apply(sysctl("net/a", "refused"));
    assert_eq!(refused, (Verdict::Failed, "1".into(), Some("set net.a: invalid argument".into())));
    let gone = apply(sysctl("net/none", "1"));
    assert_eq!(gone, (Verdict::Failed, String::new(), Some("it is no more".into())));
    // A driver that does not go further than it is, and one that goes as far as it can.
    let most = World::new(&[(RING, "50")]);
    let applied = most.apply(&[ring("60")]).unwrap();
    assert_eq!((applied[0].verdict, &*applied[0].now), (Verdict::NotTaken, "50"));
    assert_eq!(apply(ring("60")).1, "50");
}

#[test]
fn killed_at_any_step_everything_can_be_put_back() {
    let before = world().values();
    let mut steps = 0;
    loop {
        let world = world();
        world.left.set(Some(steps));
        let applied = world.apply(&findings());
        // Killed again and again while it is undone.
        for undo_steps in 0..10 {
            world.left.set(Some(undo_steps));
            let _ = world.undo();
        }
        world.left.set(None);
        world.undo().unwrap();
        assert_eq!(world.values(), before, "killed at step {steps}");
        assert!(world.undo().unwrap().is_empty(), "killed at step {steps}");
        if applied.is_ok() {
            break;
        }
        steps += 1;
    }
    assert!(steps >= 9, "{steps}: an intent, a change and a record each");
}

/// The disk is full from some record on.
#[test]
fn what_is_in_force_though_it_could_not_be_recorded_is_told() {
    let world = world();
    // The first change is made, and its record cannot be written.
    world.left.set(Some(2));
    let failed = world.apply(&findings()).unwrap_err().to_string();
    assert_eq!(world.values()["net.a"], "10");
    assert!(
        failed.ends_with("; changed: net.a (was 1): `weir loss check --undo --changes j` puts it back"),
        "{failed}"
    );
    let fresh = self::world();
    fresh.left.set(Some(0));
    let failed = fresh.apply(&findings()).unwrap_err().to_string();
    assert!(failed.ends_with("(nothing is changed)"), "{failed}");
}

#[test]
fn what_somebody_else_has_changed_is_left_alone() {
    let world = world();
    world.apply(&findings()).unwrap();
    world.settings.borrow_mut().insert("net.a".into(), "77".into());
    world.settings.borrow_mut().remove(RING);
    let undone = world.undo().unwrap();
    let how: Vec<_> = undone.iter().map(|change| (change.how.unwrap(), change.found.as_deref())).collect();
    assert_eq!(how, [(Settled::Gone, None), (Settled::Undone, Some("20")), (Settled::Left, Some("77"))]);
    assert_eq!(world.values()["net.a"], "77");
    assert!(world.undo().unwrap().is_empty());
}

#[test]
fn what_an_earlier_boot_had_is_gone_with_it() {
    let world = world();
    world.apply(&[sysctl("net/a", "10")]).unwrap();
    let undone = undo(&mut Settings(world.clone()), &mut world.changes(), "another boot").unwrap();
    assert_eq!((undone[0].how, world.values()["net.a"].as_str()), (Some(Settled::Rebooted), "10"));
}

#[test]
fn what_cannot_be_put_back_is_tried_again_next_time() {
    let world = World::new(&[("net.a", "refused")]);
    world.apply(&[sysctl("net/a", "10")]).unwrap();
    let undone = world.undo().unwrap();
    assert_eq!((undone[0].how, undone[0].error.is_some()), (None, true));
    assert_eq!(world.undo().unwrap().len(), 1);
}

proptest! {
    /// Several applies, each killed at any step, then undone: as it was.
    #[test]
    fn any_sequence_of_killed_applies_is_put_back(
        runs in prop::collection::vec((0_usize..12, 0_u64..100, 0_u64..100), 1..5),
    ) {
        let world = world();
        let before = world.values();
        for (steps, a, b) in runs {
            world.left.set(Some(steps));
            let _ = world.apply(&[sysctl("net/a", &a.to_string()), sysctl("net/b", &b.to_string()), ring("33")]);
        }
        world.left.set(None);
        let undone = world.undo().unwrap();
        prop_assert!(undone.iter().all(|change| change.how.is_some_and(|how| how != Settled::Left)), "{:?}", undone);
        prop_assert_eq!(world.values(), before);
    }
}
