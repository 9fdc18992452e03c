//! The queue of a pool: whose job is next, and who has a turn.

use std::{collections::VecDeque, sync::Arc};

use super::{Job, PoolLoad, STAGES, Stage, Tenant, turn::PausedJob};

/// An entry of the queue.
pub(super) enum Entry {
    /// A job that has not started.
    Start(Job),
    /// A job that gave up its turn. Its thread waits for another one.
    Resume(Arc<PausedJob>),
}

/// The waiting jobs of one tenant.
struct Lane {
    tenant: Tenant,
    /// One first-in, first-out queue for each stage.
    stages: [VecDeque<Entry>; STAGES],
}

impl Lane {
    fn pop(&mut self) -> Option<Entry> {
        self.stages.iter_mut().find_map(VecDeque::pop_front)
    }

    fn is_empty(&self) -> bool {
        self.stages.iter().all(VecDeque::is_empty)
    }
}

/// The number of jobs in a row of one tenant after which it counts as the only one.
const JOBS_OF_ONLY_TENANT: usize = 256;

/// The jobs that wait, and the turns. Everything is behind one lock.
pub(super) struct Queue {
    /// The tenants with waiting jobs. The first one is next, and goes to the end after that.
    lanes: VecDeque<Lane>,
    /// The entries of all lanes.
    waiting: usize,
    /// The turns that are taken, by tenant. A tenant without one is not listed.
    taken: Vec<(Tenant, usize)>,
    /// The sum of `taken`.
    busy: usize,
    /// The tenant of the last job, and the number of jobs in a row that were queued for it.
    latest: (Tenant, usize),
    turns: usize,
    /// The most turns of one tenant.
    tenant_turns: usize,
    /// Threads that wait to be woken.
    pub(super) idle: usize,
    /// Threads that were woken and have not run yet.
    pub(super) woken: usize,
    /// All threads, with those of paused jobs.
    pub(super) threads: usize,
    /// Threads of paused jobs.
    pub(super) paused: usize,
    pub(super) closed: bool,
}

impl Queue {
    pub(super) fn new(turns: usize, tenant_turns: usize) -> Self {
        Self {
            lanes: VecDeque::new(),
            waiting: 0,
            taken: Vec::new(),
            busy: 0,
            latest: (None, 0),
            turns,
            tenant_turns,
            idle: 0,
            woken: 0,
            threads: 0,
            paused: 0,
            closed: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    pub(super) fn has_free_turn(&self) -> bool {
        self.busy < self.turns
    }

    /// Returns whether a job of another tenant waits.
    pub(super) fn others_wait(&self, tenant: &Tenant) -> bool {
        self.lanes.iter().any(|lane| lane.tenant != *tenant)
    }

    pub(super) fn load(&self) -> PoolLoad {
        PoolLoad {
            waiting: self.waiting,
            busy: self.busy,
        }
    }

    pub(super) fn push(&mut self, tenant: &Tenant, stage: Stage, entry: Entry) {
        let at = self.lanes.iter().position(|lane| lane.tenant == *tenant);
        let at = at.unwrap_or_else(|| {
            self.lanes.push_back(Lane {
                tenant: tenant.clone(),
                stages: Default::default(),
            });
            self.lanes.len() - 1
        });
        self.lanes[at].stages[stage as usize].push_back(entry);
        self.waiting += 1;
        if self.latest.0 != *tenant {
            self.latest = (tenant.clone(), 0);
        }
        self.latest.1 = self.latest.1.saturating_add(1);
    }

    /// Returns whether all jobs of late were for one tenant.
    pub(super) fn has_one_tenant(&self) -> bool {
        self.latest.1 >= JOBS_OF_ONLY_TENANT
    }

    /// Removes the next entry and takes a turn for it. Returns `None` if there is no entry or no turn for it.
    pub(super) fn take(&mut self) -> Option<(Tenant, Entry)> {
        if !self.has_free_turn() {
            return None;
        }
        let may_take = |lane: &Lane| self.turns_of(&lane.tenant) < self.tenant_turns;
        let at = self.lanes.iter().position(may_take)?;
        let mut lane = self.lanes.remove(at)?;
        let entry = lane.pop()?;
        let tenant = lane.tenant.clone();
        if !lane.is_empty() {
            self.lanes.push_back(lane);
        }
        self.waiting -= 1;
        self.busy += 1;
        match self.taken.iter_mut().find(|(of, _)| *of == tenant) {
            Some((_, turns)) => *turns += 1,
            None => self.taken.push((tenant.clone(), 1)),
        }
        Some((tenant, entry))
    }

    fn turns_of(&self, tenant: &Tenant) -> usize {
        let taken = self.taken.iter().find(|(of, _)| of == tenant);
        taken.map_or(0, |(_, turns)| *turns)
    }

    /// Gives back a turn of a tenant.
    pub(super) fn give_back(&mut self, tenant: &Tenant) {
        self.busy -= 1;
        if let Some(at) = self.taken.iter().position(|(of, _)| of == tenant) {
            self.taken[at].1 -= 1;
            if self.taken[at].1 == 0 {
                self.taken.swap_remove(at);
            }
        }
    }

    /// Refuses new jobs. Removes those that have not started; paused jobs stay, because they run to their end.
    pub(super) fn close(&mut self) -> Vec<Job> {
        self.closed = true;
        let mut dropped = Vec::new();
        for lane in std::mem::take(&mut self.lanes) {
            for entry in lane.stages.into_iter().flatten() {
                self.waiting -= 1;
                match entry {
                    Entry::Start(job) => dropped.push(job),
                    Entry::Resume(_) => self.push(&lane.tenant, Stage::Begin, entry),
                }
            }
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(log: &flume::Sender<&'static str>, name: &'static str) -> Entry {
        let log = log.clone();
        Entry::Start(Box::new(move || log.send(name).unwrap()))
    }

    fn run(queue: &mut Queue) -> Option<Tenant> {
        let (tenant, entry) = queue.take()?;
        if let Entry::Start(job) = entry {
            job();
        }
        Some(tenant)
    }

    #[test]
    fn turns_go_round_tenants_and_by_stage_within_one() {
        let (log, order) = flume::unbounded();
        let mut queue = Queue::new(10, 10);
        let [alice, bob] = ["alice", "bob"].map(|name| Some(Arc::from(name)));
        for name in ["a1", "a2", "a3"] {
            queue.push(&alice, Stage::Begin, job(&log, name));
        }
        queue.push(&alice, Stage::Finish, job(&log, "a0"));
        for name in ["b1", "b2"] {
            queue.push(&bob, Stage::Begin, job(&log, name));
        }
        while run(&mut queue).is_some() {}
        let order: Vec<_> = order.drain().collect();
        assert_eq!(order, ["a0", "b1", "a1", "b2", "a2", "a3"]);
    }

    #[test]
    fn a_tenant_is_the_only_one_after_many_jobs() {
        let (log, _order) = flume::unbounded();
        let mut queue = Queue::new(1, 1);
        let [alice, bob] = ["alice", "bob"].map(|name| Some(Arc::from(name)));
        queue.push(&bob, Stage::Begin, job(&log, "b"));
        for _ in 1..JOBS_OF_ONLY_TENANT {
            queue.push(&alice, Stage::Begin, job(&log, "a"));
        }
        assert!(!queue.has_one_tenant());
        queue.push(&alice, Stage::Begin, job(&log, "a"));
        assert!(queue.has_one_tenant());
        queue.push(&bob, Stage::Begin, job(&log, "b"));
        assert!(!queue.has_one_tenant());
    }

    #[test]
    fn a_tenant_has_at_most_its_turns() {
        let (log, _order) = flume::unbounded();
        let mut queue = Queue::new(3, 2);
        let [alice, bob] = ["alice", "bob"].map(|name| Some(Arc::from(name)));
        for _ in 0..3 {
            queue.push(&alice, Stage::Begin, job(&log, "a"));
        }
        assert_eq!(run(&mut queue), Some(alice.clone()));
        assert_eq!(run(&mut queue), Some(alice.clone()));
        assert_eq!(run(&mut queue), None);
        queue.push(&bob, Stage::Begin, job(&log, "b"));
        assert_eq!(run(&mut queue), Some(bob.clone()));
        queue.push(&bob, Stage::Begin, job(&log, "b"));
        assert_eq!(run(&mut queue), None, "all turns are taken");
        queue.give_back(&alice);
        queue.give_back(&bob);
        assert_eq!(run(&mut queue), Some(alice));
        assert_eq!(run(&mut queue), Some(bob));
    }
}
