//! Tests the fetcher against a local server over real connections.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use facescan_config::{Config, HostPattern, Milliseconds, Scheme, Sources};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

use super::*;

const LIMIT: u64 = 1000;
const TOO_LARGE: FetchError = FetchError::TooLarge { limit: LIMIT };

/// The server's reaction to a request.
enum Answer {
    /// Sends these bytes and closes the connection.
    Whole(Vec<u8>),
    /// Sends these bytes and nothing more.
    Stall(Vec<u8>),
    /// Sends these bytes, and repeats them as long as the client reads.
    Endless(Vec<u8>),
}

fn head(lines: &str) -> Vec<u8> {
    format!("HTTP/1.1 {lines}\r\nconnection: close\r\n\r\n").into_bytes()
}

fn ok(body: &[u8]) -> Vec<u8> {
    let length = body.len();
    [
        head(&format!("200 OK\r\ncontent-length: {length}")),
        body.to_vec(),
    ]
    .concat()
}

fn redirect(location: &str) -> Answer {
    Answer::Whole(head(&format!(
        "302 Found\r\nlocation: {location}\r\ncontent-length: 0"
    )))
}

/// A server on a free loopback port, and the heads of the requests that it received.
struct Server {
    address: SocketAddr,
    heads: mpsc::UnboundedReceiver<String>,
}

impl Server {
    async fn start(answer: impl Fn(&str) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (heard, heads) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let head = read_head(&mut stream).await;
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                heard.send(head).ok();
                tokio::spawn(carry_out(answer(&path), stream));
            }
        });
        Self { address, heads }
    }

    /// Returns the server's URL of a path. Its host is a name that must be resolved.
    fn url(&self, path: &str) -> Url {
        let port = self.address.port();
        format!("http://pictures.test:{port}{path}")
            .parse()
            .unwrap()
    }
}

async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&head).into_owned()
}

async fn carry_out(answer: Answer, mut stream: TcpStream) {
    match answer {
        Answer::Whole(bytes) => stream.write_all(&bytes).await.unwrap_or_default(),
        Answer::Stall(bytes) => {
            stream.write_all(&bytes).await.unwrap_or_default();
            std::future::pending::<()>().await;
        }
        Answer::Endless(bytes) => {
            stream.write_all(&bytes).await.unwrap_or_default();
            while stream.write_all(&[7; 100]).await.is_ok() {}
        }
    }
}

/// A resolver with fixed names and addresses.
#[derive(Default)]
struct Names {
    names: Mutex<HashMap<&'static str, Vec<IpAddr>>>,
    lookups: AtomicUsize,
}

impl Names {
    fn with(names: &[(&'static str, &[&str])]) -> Arc<Self> {
        let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let names = names.iter().map(|(name, texts)| (*name, parse(texts)));
        Arc::new(Self {
            names: Mutex::new(names.collect()),
            lookups: AtomicUsize::new(0),
        })
    }

    fn usual() -> Arc<Self> {
        Self::with(&[
            ("pictures.test", &["127.0.0.1"]),
            ("metadata.test", &["169.254.169.254"]),
            ("nowhere.test", &[]),
        ])
    }
}

#[async_trait]
impl Lookup for Names {
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        let names = self.names.lock().unwrap();
        let found = names.get(host).cloned();
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn settings() -> Urls {
    Urls {
        schemes: vec![Scheme::Http, Scheme::Https],
        allow_private: true,
        // A loaded machine gets the time that it needs. Servers that must time out never answer.
        connect_timeout_ms: Milliseconds(60_000),
        timeout_ms: Milliseconds(60_000),
        ..Config::load(&Sources::default()).unwrap().0.urls
    }
}

fn fetcher() -> WebFetcher {
    WebFetcher::new(&settings(), Names::usual()).unwrap()
}

#[tokio::test]
async fn an_image_is_fetched_unchanged() {
    let mut server = Server::start(|_| Answer::Whole(ok(b"picture"))).await;
    let fetched = fetcher().fetch(&server.url("/a%20b?c=d"), LIMIT).await;
    assert_eq!(fetched.unwrap(), "picture");
    let head = server.heads.recv().await.unwrap().to_ascii_lowercase();
    assert!(head.starts_with("get /a%20b?c=d http/1.1\r\n"), "{head}");
    for line in [
        "user-agent: facescan",
        "accept-encoding: identity",
        "image/jpeg",
    ] {
        assert!(head.contains(line), "{line} in {head}");
    }
    for word in ["cookie", "referer", "authorization"] {
        assert!(!head.contains(word), "{word} in {head}");
    }
}

#[tokio::test]
async fn an_image_may_have_exactly_the_limit_in_every_framing() {
    let limit = usize::try_from(LIMIT).unwrap();
    let server = Server::start(move |path| {
        let body = |length: usize| vec![7; length];
        // Without a length, the end of the connection ends the body.
        let bare = |length| [head("200 OK"), body(length)].concat();
        Answer::Whole(match path {
            "/stated" => ok(&body(limit)),
            "/stated-over" => ok(&body(limit + 1)),
            "/bare" => bare(limit),
            _ => bare(limit + 1),
        })
    })
    .await;
    let fetcher = fetcher();
    for path in ["/stated", "/bare"] {
        let fetched = fetcher.fetch(&server.url(path), LIMIT).await;
        assert_eq!(fetched.unwrap().len(), limit, "{path}");
    }
    for path in ["/stated-over", "/bare-over"] {
        let fetched = fetcher.fetch(&server.url(path), LIMIT).await;
        assert_eq!(fetched, Err(TOO_LARGE), "{path}");
    }
}

#[tokio::test]
async fn reading_stops_at_the_limit() {
    let server = Server::start(|path| match path {
        // The stated length exceeds the limit, so the fetcher does not wait for the body.
        "/stated" => Answer::Stall(head("200 OK\r\ncontent-length: 1001")),
        "/chunked" => Answer::Endless(
            [
                head("200 OK\r\ntransfer-encoding: chunked"),
                b"ffffffff\r\n".to_vec(),
            ]
            .concat(),
        ),
        _ => Answer::Endless(head("200 OK")),
    })
    .await;
    let fetcher = fetcher();
    for path in ["/stated", "/chunked", "/bare"] {
        let fetched = fetcher.fetch(&server.url(path), LIMIT).await;
        assert_eq!(fetched, Err(TOO_LARGE), "{path}");
    }
}

#[tokio::test]
async fn redirects_are_followed_up_to_the_limit() {
    let mut server = Server::start(|path| match path {
        "/first" => redirect("second/"),
        // The target is relative to this URL and not to the first one.
        "/second/" => redirect("third"),
        "/second/third" => Answer::Whole(ok(b"picture")),
        "/nowhere" => Answer::Whole(head("302 Found\r\ncontent-length: 0")),
        _ => redirect("/loop"),
    })
    .await;
    let fetcher = fetcher();
    let fetched = fetcher.fetch(&server.url("/first"), LIMIT).await;
    assert_eq!(fetched.unwrap(), "picture");
    let fetched = fetcher.fetch(&server.url("/nowhere"), LIMIT).await;
    assert_eq!(fetched, Err(FetchError::BadRedirect));
    while server.heads.try_recv().is_ok() {}
    let fetched = fetcher.fetch(&server.url("/loop"), LIMIT).await;
    assert_eq!(fetched, Err(FetchError::TooManyRedirects { limit: 5 }));
    let mut asked = 0;
    while server.heads.try_recv().is_ok() {
        asked += 1;
    }
    assert_eq!(asked, 6, "the first, and five redirects");
}

#[tokio::test]
async fn each_redirect_is_checked_like_the_first_url() {
    let server = Server::start(|path| {
        redirect(match path {
            "/address" => "http://169.254.169.254/latest/meta-data/",
            "/spelling" => "//0xa9fea9fe/",
            "/name" => "http://metadata.test/",
            "/file" => "file:///etc/passwd",
            "/user" => "http://user:pass@pictures.test/",
            _ => "http://127.0.0.1/",
        })
    })
    .await;
    let mut urls = settings();
    urls.hosts = ["pictures.test", "metadata.test", "169.254.169.254"]
        .map(|host| HostPattern::try_from(host.to_owned()).unwrap())
        .into();
    let fetcher = WebFetcher::new(&urls, Names::usual()).unwrap();
    for path in ["/address", "/spelling", "/file", "/user", "/host"] {
        let fetched = fetcher.fetch(&server.url(path), LIMIT).await;
        assert_eq!(fetched, Err(Refused::Redirect.into()), "{path}");
    }
    let fetched = fetcher.fetch(&server.url("/name"), LIMIT).await;
    assert_eq!(fetched, Err(FetchError::NotPublic));
}

#[tokio::test]
async fn a_name_with_a_private_address_is_refused() {
    let mut server = Server::start(|_| Answer::Whole(ok(b"secret"))).await;
    let urls = Urls {
        allow_private: false,
        ..settings()
    };
    for addresses in [
        &["127.0.0.1"] as &[&str],
        &["::ffff:127.0.0.1"],
        &["93.184.215.14", "127.0.0.1"],
    ] {
        let names = Names::with(&[("pictures.test", addresses)]);
        let fetcher = WebFetcher::new(&urls, names).unwrap();
        let fetched = fetcher.fetch(&server.url("/"), LIMIT).await;
        assert_eq!(fetched, Err(FetchError::NotPublic), "{addresses:?}");
    }
    // A caller cannot tell such a name from one that does not exist.
    let (private, unknown) = (FetchError::NotPublic, FetchError::Unreachable);
    assert_eq!(private.to_string(), unknown.to_string());
    assert_eq!(private.is_temporary(), unknown.is_temporary());
    assert!(
        server.heads.try_recv().is_err(),
        "the server received a request"
    );
}

#[tokio::test]
async fn a_name_is_resolved_once_per_connection() {
    let server = Server::start(|_| Answer::Whole(ok(b"picture"))).await;
    let names = Names::usual();
    let lookup = Arc::clone(&names);
    let fetcher = WebFetcher::new(&settings(), lookup).unwrap();
    let fetched = fetcher.fetch(&server.url("/"), LIMIT).await;
    assert_eq!(fetched.unwrap(), "picture");
    assert_eq!(names.lookups.load(Ordering::Relaxed), 1);
    // The name now resolves to another address, as in a DNS rebinding attack. The next connection checks it again.
    let turned = vec!["169.254.169.254".parse().unwrap()];
    names.names.lock().unwrap().insert("pictures.test", turned);
    let fetched = fetcher.fetch(&server.url("/"), LIMIT).await;
    assert_eq!(fetched, Err(FetchError::NotPublic));
}

#[tokio::test]
async fn a_failed_fetch_reports_the_reason() {
    let server = Server::start(|path| {
        Answer::Whole(match path {
            "/missing" => head("404 Not Found\r\ncontent-length: 0"),
            "/failing" => head("503 Service Unavailable\r\ncontent-length: 0"),
            "/part" => [
                head("206 Partial Content\r\ncontent-length: 1"),
                b"x".to_vec(),
            ]
            .concat(),
            "/packed" => head("200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 0"),
            "/short" => [head("200 OK\r\ncontent-length: 100"), vec![7; 10]].concat(),
            "/chunks" => [
                head("200 OK\r\ntransfer-encoding: chunked"),
                b"5\r\nhello\r\n".to_vec(),
            ]
            .concat(),
            "/silent" => Vec::new(),
            _ => b"no http at all\r\n\r\n".to_vec(),
        })
    })
    .await;
    let fetcher = fetcher();
    for (path, error) in [
        ("/missing", FetchError::Status(404)),
        ("/failing", FetchError::Status(503)),
        ("/part", FetchError::Status(206)),
        ("/packed", FetchError::Encoded),
        ("/short", FetchError::BrokeOff),
        ("/chunks", FetchError::BrokeOff),
        ("/silent", FetchError::BrokeOff),
        ("/garbage", FetchError::BrokeOff),
    ] {
        let fetched = fetcher.fetch(&server.url(path), LIMIT).await;
        assert_eq!(fetched, Err(error), "{path}");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_not_trusted() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_u8().await.unwrap();
        carry_out(Answer::Stall(ok(b"picture")), stream).await;
    });
    let url = format!("https://pictures.test:{port}/").parse().unwrap();
    let fetched = fetcher().fetch(&url, LIMIT).await;
    assert_eq!(fetched, Err(FetchError::Untrusted));
}

#[tokio::test]
async fn a_missing_host_is_unreachable() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    for host in [&format!("127.0.0.1:{port}"), "nowhere.test", "unknown.test"] {
        let url = format!("http://{host}/").parse().unwrap();
        let fetched = fetcher().fetch(&url, LIMIT).await;
        assert_eq!(fetched, Err(FetchError::Unreachable), "{host}");
    }
}

#[tokio::test]
async fn a_server_that_stalls_times_out() {
    let server = Server::start(|path| match path {
        "/head" => Answer::Stall(Vec::new()),
        "/body" => Answer::Stall([head("200 OK\r\ncontent-length: 9"), b"pict".to_vec()].concat()),
        _ => redirect("/head"),
    })
    .await;
    let urls = Urls {
        timeout_ms: Milliseconds(50),
        ..settings()
    };
    let fetcher = WebFetcher::new(&urls, Names::usual()).unwrap();
    for path in ["/head", "/body", "/redirect"] {
        let fetched = fetcher.fetch(&server.url(path), LIMIT).await;
        let late = Err(FetchError::TimedOut { limit_ms: 50 });
        assert_eq!(fetched, late, "{path}");
    }
}
