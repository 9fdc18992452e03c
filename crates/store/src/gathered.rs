//! Calls that wait to be done together, because a call of the database costs more than the rows that it reads or writes.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use tokio::sync::oneshot;

/// Returns a future that ends when the work on the next group has its turn.
pub(crate) type Turns = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// Calls of one kind that wait, by what those of a group have in common. A key with calls has a worker, a task that does them.
pub(crate) struct Gathered<K, C, R> {
    waiting: Mutex<Lines<K, C, R>>,
}

type Lines<K, C, R> = HashMap<K, VecDeque<Waiting<C, R>>>;

/// A call, and where its result goes.
pub(crate) struct Waiting<C, R> {
    pub(crate) call: C,
    reply: oneshot::Sender<R>,
}

impl<C, R> Waiting<C, R> {
    /// Ends the call. One that was dropped gets no result.
    pub(crate) fn reply(self, result: R) {
        self.reply.send(result).ok();
    }

    /// Ends the call with a result that is made of it.
    pub(crate) fn reply_with(self, result: impl FnOnce(C) -> R) {
        self.reply.send(result(self.call)).ok();
    }
}

impl<K, C, R> Default for Gathered<K, C, R> {
    fn default() -> Self {
        Self {
            waiting: Mutex::default(),
        }
    }
}

impl<K: Clone + Eq + Hash, C, R> Gathered<K, C, R> {
    /// Adds a call, whose result the receiver gets. Calls `start` if the key has no worker yet.
    pub(crate) fn add(&self, key: K, call: C, start: impl FnOnce()) -> oneshot::Receiver<R> {
        let (reply, result) = oneshot::channel();
        let call = Waiting { call, reply };
        match self.lock().entry(key) {
            Entry::Occupied(mut line) => line.get_mut().push_back(call),
            Entry::Vacant(lines) => {
                lines.insert([call].into());
                start();
            }
        }
        result
    }

    /// Begins the work on the calls of a key. Only one task does at a time.
    pub(crate) fn worker(&self, key: K) -> Worker<'_, K, C, R> {
        Worker {
            gathered: self,
            key,
            has_ended: false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lines<K, C, R>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The work on the calls of a key. If its task is dropped before the end, the calls that wait get no result.
pub(crate) struct Worker<'g, K: Clone + Eq + Hash, C, R> {
    gathered: &'g Gathered<K, C, R>,
    key: K,
    has_ended: bool,
}

impl<K: Clone + Eq + Hash, C, R> Worker<'_, K, C, R> {
    /// Waits for a turn, and returns calls that are waited for, oldest first: the first one in any case, and those after it as long
    /// as they fit. Returns `None`, and ends the work, if there are none.
    pub(crate) async fn next_group(
        &mut self,
        turns: &Turns,
        mut fits: impl FnMut(&C) -> bool,
    ) -> Option<Vec<Waiting<C, R>>> {
        while !self.end_if_idle() {
            turns().await;
            let group = self.take(&mut fits);
            if !group.is_empty() {
                return Some(group);
            }
        }
        None
    }

    /// Ends the work if no call waits, and returns whether it has.
    fn end_if_idle(&mut self) -> bool {
        let mut lines = self.gathered.lock();
        self.has_ended = lines.get(&self.key).is_none_or(VecDeque::is_empty);
        if self.has_ended {
            lines.remove(&self.key);
        }
        self.has_ended
    }

    fn take(&mut self, mut fits: impl FnMut(&C) -> bool) -> Vec<Waiting<C, R>> {
        let mut group = Vec::new();
        let mut lines = self.gathered.lock();
        let Some(line) = lines.get_mut(&self.key) else {
            return group;
        };
        line.retain(|it| !it.reply.is_closed());
        while let Some(it) = line.front()
            && (fits(&it.call) || group.is_empty())
        {
            group.extend(line.pop_front());
        }
        group
    }
}

impl<K: Clone + Eq + Hash, C, R> Drop for Worker<'_, K, C, R> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.gathered.lock().remove(&self.key);
        }
    }
}
