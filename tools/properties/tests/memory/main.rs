//! No structured body takes more than twice its length of memory or more than the stated time, at any route and in any format that
//! the route takes, and none keeps the thread that serves all requests.

use std::time::Duration;

use bytes::Bytes;
use facescan_properties::{Route, routes_with_bodies};
use peak_alloc::PeakAlloc;

mod fixed;
mod generated;

use self::generated::Generator;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The length of a body that is much larger than what a request takes beside it, in bytes.
const LARGE: usize = 16 << 20;

/// The lengths of the bodies that are made for each route and format, in bytes.
const LENGTHS: [usize; 6] = [10_000, 100_000, 300_000, 1_000_000, 1_000_000, LARGE];

/// What a request takes beside its body, in bytes: the most items that a submission may have, and the server's own work.
const BESIDE_BODY: usize = 5 << 20;

/// The time of the processor for each MiB of a body, and beside that. `docs/security.md` states it for the program, which is
/// optimized.
const TIME_PER_MIB: Duration = Duration::from_millis(250);
const TIME_BESIDE: Duration = Duration::from_secs(2);

/// How many times as long the code may take if it is not optimized.
const SLOWNESS: u32 = if cfg!(debug_assertions) { 4 } else { 1 };

/// The longest time without a response to another request, which a health check allows.
const LONGEST_POLL: Duration = Duration::from_millis(200);

const EDGE: &str = "multipart/form-data; boundary=edge";

/// Returns the content type to send, and bodies of its format.
fn fixed_bodies(content_type: &str) -> (&str, Vec<Vec<u8>>) {
    match content_type {
        "application/json" => (content_type, fixed::json()),
        "application/msgpack" => (content_type, fixed::msgpack()),
        "multipart/form-data" => (EDGE, fixed::forms()),
        "application/x-ndjson" => (content_type, fixed::lines()),
        // Images have limits of their own.
        _ => (content_type, Vec::new()),
    }
}

/// Returns the content type to send, and a body of its format.
fn generated_body(content_type: &str, seed: u64, length: usize) -> Option<(&str, Vec<u8>)> {
    let mut generator = Generator::new(seed);
    Some(match content_type {
        "application/json" => (content_type, generator.object(length).json().into()),
        "application/msgpack" => (content_type, generator.object(length).msgpack()),
        "multipart/form-data" => (EDGE, generator.form(length).into()),
        "application/x-ndjson" => (content_type, generator.lines(length).into()),
        _ => return None,
    })
}

/// What the requests have taken.
#[derive(Debug, Default)]
struct Taken {
    bodies: usize,
    /// The most memory beside twice the length of a body, in bytes.
    beside_body: usize,
    /// The most time of the processor, as a share of what is allowed.
    share_of_time: f64,
    longest_poll: Duration,
    /// What was promised and not kept.
    broken: Vec<String>,
}

impl Taken {
    fn check(&mut self, route: &Route, content_type: &str, body: Vec<u8>, origin: &str) {
        let body = Bytes::from(body);
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        let answer = route.send(content_type, &body);
        let taken = MEMORY.peak_usage().saturating_sub(before);
        let beside_body = taken.saturating_sub(2 * body.len());
        let mib = u32::try_from(body.len() >> 20).expect("a short body");
        let share_of_time = answer
            .time
            .div_duration_f64(SLOWNESS * (TIME_BESIDE + TIME_PER_MIB * mib));
        let holds = answer.status < 500
            && beside_body <= BESIDE_BODY
            && share_of_time <= 1.0
            && answer.longest_poll <= LONGEST_POLL;
        if !holds {
            self.broken.push(format!(
                "{} bytes of {content_type}, {origin}, to {} {}: status {}, {} KiB of memory beside twice the body, {:?} of \
                 work, {:?} without another request: {}",
                body.len(),
                route.method,
                route.path,
                answer.status,
                beside_body >> 10,
                answer.time,
                answer.longest_poll,
                body[..body.len().min(80)].escape_ascii(),
            ));
        }
        self.bodies += 1;
        self.beside_body = self.beside_body.max(beside_body);
        self.share_of_time = self.share_of_time.max(share_of_time);
        self.longest_poll = self.longest_poll.max(answer.longest_poll);
    }
}

/// Calls `each` with every route and content type. The first request starts the server.
fn for_each_format(mut each: impl FnMut(&Route, &str)) {
    let routes = routes_with_bodies();
    assert!(routes.len() >= 20, "{} routes", routes.len());
    routes[0].send("application/json", &Bytes::new());
    for route in &routes {
        for content_type in &route.content_types {
            each(route, content_type);
        }
    }
}

#[test]
fn a_structured_body_takes_at_most_twice_its_length() {
    let mut taken = Taken::default();
    let mut seed = 0;
    for_each_format(|route, content_type| {
        let (sent, bodies) = fixed_bodies(content_type);
        for (index, body) in bodies.into_iter().enumerate() {
            taken.check(route, sent, body, &format!("fixed {index}"));
        }
        for length in LENGTHS {
            seed += 1;
            if let Some((sent, body)) = generated_body(content_type, seed, length) {
                taken.check(route, sent, body, &format!("seed {seed}"));
            }
        }
    });
    assert!(taken.broken.is_empty(), "{}", taken.broken.join("\n"));
    assert!(taken.bodies > 1000, "{taken:?}");
    println!("{taken:?}");
}
