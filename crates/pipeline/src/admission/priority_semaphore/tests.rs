use std::sync::LazyLock;

use facescan_clock::testing::TestClock;
use futures::poll;

use super::*;

fn semaphore(permits: usize) -> (PrioritySemaphore, Arc<TestClock>) {
    let clock = Arc::new(TestClock::default());
    let limits = PermitLimits {
        tenant_images: permits,
        bytes: 1600,
    };
    let semaphore =
        PrioritySemaphore::new(limits, Duration::from_millis(100), Arc::clone(&clock) as _);
    (semaphore, clock)
}

static ALICE: LazyLock<Arc<str>> = LazyLock::new(|| "alice".into());

#[tokio::test]
async fn interactive_images_go_first_and_each_queue_keeps_its_order() {
    let (semaphore, _) = semaphore(1);
    let first = semaphore.acquire(Priority::Interactive, &ALICE, 1).await;
    let mut bulk = Box::pin(semaphore.acquire(Priority::Bulk, &ALICE, 1));
    let mut second = Box::pin(semaphore.acquire(Priority::Interactive, &ALICE, 1));
    let mut third = Box::pin(semaphore.acquire(Priority::Interactive, &ALICE, 1));
    for waiting in [&mut bulk, &mut second, &mut third] {
        assert!(poll!(waiting.as_mut()).is_pending());
    }
    let waiting = semaphore.waiting();
    assert_eq!(waiting, [(Priority::Interactive, 2), (Priority::Bulk, 1)]);
    drop(first);
    assert!(poll!(bulk.as_mut()).is_pending());
    assert!(poll!(third.as_mut()).is_pending());
    drop(second.await);
    drop(third.await);
    drop(bulk.await);
}

#[tokio::test]
async fn a_bulk_image_that_has_waited_long_enough_goes_before_interactive_ones() {
    let (semaphore, clock) = semaphore(1);
    let first = semaphore.acquire(Priority::Interactive, &ALICE, 1).await;
    let mut bulk = Box::pin(semaphore.acquire(Priority::Bulk, &ALICE, 1));
    assert!(poll!(bulk.as_mut()).is_pending());
    let mut second = Box::pin(semaphore.acquire(Priority::Interactive, &ALICE, 1));
    assert!(poll!(second.as_mut()).is_pending());
    clock.advance(Duration::from_millis(100));
    drop(first);
    assert!(poll!(second.as_mut()).is_pending());
    drop(bulk.await);
    drop(second.await);
}

/// One of four permits is for bulk images while interactive images come.
#[tokio::test]
async fn bulk_images_leave_permits_for_the_next_interactive_one() {
    let (semaphore, clock) = semaphore(4);
    drop(semaphore.acquire(Priority::Interactive, &ALICE, 1).await);
    let bulk = semaphore.acquire(Priority::Bulk, &ALICE, 1).await;
    let mut second = Box::pin(semaphore.acquire(Priority::Bulk, &ALICE, 1));
    let mut third = Box::pin(semaphore.acquire(Priority::Bulk, &ALICE, 1));
    assert!(poll!(second.as_mut()).is_pending());
    assert!(poll!(third.as_mut()).is_pending());
    let interactive = semaphore.acquire(Priority::Interactive, &ALICE, 1).await;
    assert!(semaphore.has_bulk());
    clock.advance(Duration::from_secs(2));
    // The end of a bulk image lets all in that have a permit now.
    drop(bulk);
    let (second, third) = (second.await, third.await);
    drop((interactive, second, third));
    assert!(!semaphore.has_bulk());
}

#[tokio::test]
async fn a_permit_is_not_lost_when_a_waiter_leaves() {
    let (semaphore, _) = semaphore(1);
    let first = semaphore.acquire(Priority::Interactive, &ALICE, 1).await;
    let mut leaves = Box::pin(semaphore.acquire(Priority::Interactive, &ALICE, 1));
    let mut leaves_late = Box::pin(semaphore.acquire(Priority::Interactive, &ALICE, 1));
    let mut stays = Box::pin(semaphore.acquire(Priority::Bulk, &ALICE, 1));
    for waiting in [&mut leaves, &mut leaves_late, &mut stays] {
        assert!(poll!(waiting.as_mut()).is_pending());
    }
    drop(leaves);
    drop(first);
    // This waiter has received the permit and leaves before it reads it.
    drop(leaves_late);
    drop(stays.await);
    drop(semaphore.acquire(Priority::Bulk, &ALICE, 1).await);
}

#[tokio::test]
async fn a_tenant_leaves_permits_for_others() {
    let (semaphore, _) = semaphore(2);
    let bob: Arc<str> = "bob".into();
    let first = semaphore.acquire(Priority::Interactive, &ALICE, 1).await;
    let second = semaphore.acquire(Priority::Interactive, &ALICE, 1).await;
    let mut third = Box::pin(semaphore.acquire(Priority::Interactive, &ALICE, 1));
    assert!(poll!(third.as_mut()).is_pending());
    // Bob goes before the third image of alice.
    let of_bob = semaphore.acquire(Priority::Interactive, &bob, 1).await;
    drop(of_bob);
    assert!(poll!(third.as_mut()).is_pending());
    drop(first);
    drop((second, third.await));
}

#[tokio::test]
async fn several_tenants_leave_permits_for_others() {
    let (semaphore, _) = semaphore(2);
    let [bob, carol]: [Arc<str>; 2] = ["bob".into(), "carol".into()];
    let mut held = Vec::new();
    for tenant in [&ALICE, &bob] {
        for _ in 0..2 {
            held.push(semaphore.acquire(Priority::Interactive, tenant, 1).await);
        }
    }
    let first = semaphore.acquire(Priority::Interactive, &carol, 1).await;
    let mut second = Box::pin(semaphore.acquire(Priority::Interactive, &carol, 1));
    assert!(poll!(second.as_mut()).is_pending());
    held.truncate(2);
    drop((first, second.await));
    for number in 0..6 {
        let tenant = format!("tenant {number}").into();
        held.push(semaphore.acquire(Priority::Interactive, &tenant, 1).await);
    }
    let dave: Arc<str> = "dave".into();
    let mut ninth = Box::pin(semaphore.acquire(Priority::Interactive, &dave, 1));
    assert!(poll!(ninth.as_mut()).is_pending(), "eight are the most");
    drop(held);
    drop(ninth.await);
}

#[tokio::test]
async fn a_tenant_leaves_memory_for_others() {
    let (semaphore, _) = semaphore(10);
    let [bob, carol, dave, erin]: [Arc<str>; 4] = ["bob", "carol", "dave", "erin"].map(Into::into);
    let half = semaphore.acquire(Priority::Interactive, &ALICE, 800).await;
    let mut more = Box::pin(semaphore.acquire(Priority::Interactive, &ALICE, 500));
    assert!(poll!(more.as_mut()).is_pending(), "three quarters are 1200");
    let of_bob = semaphore.acquire(Priority::Interactive, &bob, 500).await;
    let mut rest = Box::pin(semaphore.acquire(Priority::Interactive, &bob, 200));
    assert!(poll!(rest.as_mut()).is_pending(), "an eighth is for others");
    drop(rest);
    let first = semaphore.acquire(Priority::Interactive, &dave, 200).await;
    let mut large = Box::pin(semaphore.acquire(Priority::Interactive, &carol, 200));
    assert!(poll!(large.as_mut()).is_pending(), "1500 of 1600 are held");
    // Small images go before it, and no others.
    let small = semaphore.acquire(Priority::Interactive, &erin, 100).await;
    drop(small);
    drop(half);
    let large = large.await;
    let more = more.await;
    drop((of_bob, first, large, more));
}

#[tokio::test]
async fn an_image_that_needs_more_than_all_memory_runs_alone() {
    let (semaphore, _) = semaphore(10);
    let small = semaphore.acquire(Priority::Interactive, &ALICE, 1).await;
    let bob: Arc<str> = "bob".into();
    let mut huge = Box::pin(semaphore.acquire(Priority::Interactive, &bob, u64::MAX));
    assert!(poll!(huge.as_mut()).is_pending());
    drop(small);
    let huge = huge.await;
    let mut next = Box::pin(semaphore.acquire(Priority::Interactive, &ALICE, 1));
    assert!(poll!(next.as_mut()).is_pending());
    drop(huge);
    drop(next.await);
}
