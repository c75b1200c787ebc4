//! What all clients have in common: numbers that nobody else has, and a check of every message that comes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::capture::judge::{Towards, answered, asked};
use crate::capture::schema::Version;
use crate::stage::Place;
use crate::wire::Wire;

/// What kind of client it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    /// 2025-11-25 with its tasks.
    A,
    /// 2026-07-28 with the tasks extension.
    B,
    /// 2025-06-18 or 2025-11-25, in turns, without tasks.
    Legacy,
    /// 2026-07-28 without the extension.
    Modern,
}

pub(crate) const KINDS: [Kind; 4] = [Kind::A, Kind::B, Kind::Legacy, Kind::Modern];

/// What one client has counted.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Messages that came, each checked.
    pub(crate) checked: u64,
    /// Plays that ended as they should, by name.
    pub(crate) plays: BTreeMap<&'static str, u64>,
    /// Messages that came, by what they are.
    pub(crate) messages: BTreeMap<String, u64>,
    /// Microseconds until the answer to a request, by method; only of those that wait for nothing.
    pub(crate) times: BTreeMap<&'static str, Vec<u64>>,
}

/// Numbers that follow from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % sides
    }
}

pub(crate) struct Player {
    pub(crate) kind: Kind,
    pub(crate) version: Version,
    pub(crate) dice: Dice,
    pub(crate) counts: Counts,
    /// What it has to find in every answer of the play that it plays.
    pub(crate) token: String,
    /// Whether it says yes when it is asked.
    pub(crate) agrees: bool,
    main: Wire,
    side: Wire,
    pub(crate) session: Option<String>,
    next_id: u64,
    number: u64,
    picks: u64,
}

/// So many plays of each client are not left to chance.
pub(crate) const PLANNED: u64 = 2;

/// How many plays there are to pick from.
pub(crate) const SIDES: u64 = 20;

/// No two of them are alike in one run.
static TOKENS: AtomicU64 = AtomicU64::new(1);

impl Player {
    pub(crate) fn new(kind: Kind, number: usize, seed: u64, place: &Place) -> Player {
        let version = match kind {
            Kind::A => Version::V25,
            Kind::B | Kind::Modern => Version::V28,
            Kind::Legacy if number.is_multiple_of(2) => Version::V18,
            Kind::Legacy => Version::V25,
        };
        let mut player = Player {
            kind,
            version,
            dice: Dice(seed),
            counts: Counts::default(),
            token: String::new(),
            agrees: true,
            main: Wire::to(&place.address, &place.path),
            side: Wire::to(&place.address, &place.path),
            session: None,
            // Ids of different clients overlap: what is told apart is not told apart by them.
            next_id: 0,
            number: u64::try_from(number).unwrap(),
            picks: 0,
        };
        player.renew();
        player
    }

    /// What to play: the first [`PLANNED`] of each client in turns, so that a short run leaves nothing out; then as it falls.
    pub(crate) fn pick(&mut self) -> u64 {
        self.picks += 1;
        match self.picks {
            1 => {
                self.agrees = self.number.is_multiple_of(2);
                self.number % SIDES
            }
            2 => (self.number + 16) % SIDES,
            _ => self.dice.roll(SIDES),
        }
    }

    /// A new play: a token of its own.
    pub(crate) fn renew(&mut self) {
        let number = TOKENS.fetch_add(1, Ordering::SeqCst);
        self.token = format!("tok-{number}-{:x}-end", self.dice.roll(u64::MAX));
        self.agrees = self.dice.roll(2) == 0;
    }

    /// Goes somewhere else, with new connections.
    pub(crate) fn move_to(&mut self, place: &Place) {
        self.main = Wire::to(&place.address, &place.path);
        self.side = Wire::to(&place.address, &place.path);
        self.session = None;
    }

    /// Leaves as a process does that is killed, and comes back.
    pub(crate) fn reconnect(&mut self, place: &Place) {
        self.move_to(place);
        self.open();
    }

    /// Opens a session, in the era that has them.
    pub(crate) fn open(&mut self) {
        let mut capabilities = json!({ "elicitation": {} });
        match self.kind {
            Kind::A => capabilities["tasks"] = json!({ "cancel": {}, "list": {} }),
            Kind::Legacy => {}
            Kind::B | Kind::Modern => {
                let said = self.ask("server/discover", json!({}));
                assert!(said["result"]["capabilities"]["tools"].is_object(), "{said}");
                return;
            }
        }
        let said = self.ask(
            "initialize",
            json!({
                "protocolVersion": self.version.name(),
                "capabilities": capabilities,
                "clientInfo": { "name": format!("{:?}", self.kind), "version": "1" },
            }),
        );
        assert_eq!(said["result"]["protocolVersion"], self.version.name(), "{said}");
        let tasks = &said["result"]["capabilities"]["tasks"];
        assert_eq!(
            tasks.is_object(),
            self.version == Version::V25,
            "tasks are declared where there are any: {said}"
        );
        self.tell(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    /// Asks, and gives the response; whatever else comes is checked, and questions are answered.
    pub(crate) fn ask(&mut self, method: &'static str, params: Value) -> Value {
        self.ask_until(method, params, |_| false).expect("nothing ends it before its response")
    }

    /// The same, and hangs up once something came that was waited for.
    pub(crate) fn ask_until(
        &mut self,
        method: &'static str,
        params: Value,
        mut enough: impl FnMut(&Value) -> bool,
    ) -> Option<Value> {
        self.next_id += 1;
        let id = self.next_id;
        let mut params = params;
        self.complete(method, &mut params, id);
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let headers = self.headers(method, &request["params"]);
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let begun = Instant::now();
        // What is read is taken out of the player, so that it can speak while it listens.
        let mut main = std::mem::replace(&mut self.main, Wire::to("", ""));
        let mut response = None;
        {
            let mut answer = main
                .send("POST", &headers, &request.to_string())
                .unwrap_or_else(|error| panic!("{:?} {request}: {error}", self.kind));
            if method == "initialize" {
                self.session = answer.headers.get("mcp-session-id").cloned();
            }
            let is_modern = self.version == Version::V28;
            assert!(
                !(is_modern && answer.headers.contains_key("mcp-session-id")),
                "a session in the modern era"
            );
            loop {
                let next = answer.next().unwrap_or_else(|error| panic!("{:?} {request}: {error}", self.kind));
                let Some(message) = next else { break };
                self.counts.checked += 1;
                assert!(response.is_none(), "after the response: {message}");
                if message.get("method").is_none() {
                    assert_eq!(message["id"], id, "somebody else's response: {message}");
                    self.fits(&request, &message);
                    self.status(answer.status, &message);
                    response = Some(message);
                    continue;
                }
                self.heard(&message, &request);
                if enough(&message) {
                    break;
                }
            }
        }
        self.main = main;
        if !matches!(method, "tools/call" | "tasks/result" | "subscriptions/listen") {
            let took = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.counts.times.entry(method).or_default().push(took);
        }
        response
    }

    /// A call, with the time that an answer takes which waits for nothing.
    pub(crate) fn quick(&mut self, params: Value) -> Value {
        let begun = Instant::now();
        let said = self.ask("tools/call", params);
        let took = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.counts.times.entry("tools/call (quick)").or_default().push(took);
        said
    }

    fn complete(&self, method: &str, params: &mut Value, id: u64) {
        if self.version == Version::V28 {
            let mut capabilities = json!({ "elicitation": { "form": {} } });
            if self.kind == Kind::B {
                capabilities["extensions"] = json!({ "io.modelcontextprotocol/tasks": {} });
            }
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(self.version.name());
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
            params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({ "name": "load", "version": "1" });
        }
        if method == "tools/call" {
            params["_meta"]["progressToken"] = json!(format!("{}-{id}", self.token));
        }
    }

    fn headers(&self, method: &str, params: &Value) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        if method != "initialize" {
            headers.push(("mcp-protocol-version", self.version.name().to_owned()));
        }
        if let Some(session) = &self.session {
            headers.push(("mcp-session-id", session.clone()));
        }
        if self.version == Version::V28 {
            headers.push(("mcp-method", method.to_owned()));
            if let Some(name) = params["taskId"].as_str().or(params["name"].as_str()) {
                headers.push(("mcp-name", name.to_owned()));
            }
        }
        headers
    }

    /// Sends what has no answer.
    pub(crate) fn tell(&mut self, message: &Value) {
        let headers = self.headers("", &Value::Null);
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut answer = self
            .side
            .send("POST", &headers, &message.to_string())
            .unwrap_or_else(|error| panic!("{:?} {message}: {error}", self.kind));
        assert_eq!(answer.status, 202, "{message}");
        assert_eq!(answer.next().unwrap(), None, "{message}");
    }

    /// Checks a response: its type, and that nobody else's token is in it.
    fn fits(&mut self, request: &Value, message: &Value) {
        let wrong = answered(self.version, request, message, true);
        assert!(
            wrong.is_empty(),
            "{:?}, {}: {wrong:?}\n{request}\n{message}",
            self.kind,
            self.version.name()
        );
        let method = request["method"].as_str().unwrap();
        self.own(message);
        let what = match message["error"]["code"].as_i64() {
            Some(code) => format!("error {code}"),
            None => message["result"]["status"]
                .as_str()
                .or(message["result"]["resultType"].as_str())
                .unwrap_or("result")
                .to_owned(),
        };
        *self.counts.messages.entry(format!("{method} → {what}")).or_default() += 1;
    }

    /// Every token that is in a message is this play's.
    fn own(&self, message: &Value) {
        let text = message.to_string();
        let mut rest = text.as_str();
        while let Some(at) = rest.find("tok-") {
            rest = &rest[at..];
            assert!(rest.starts_with(&self.token), "somebody else's: {message}, and mine is {}", self.token);
            rest = &rest[self.token.len()..];
        }
    }

    fn status(&self, status: u16, message: &Value) {
        let due = match (self.version, message["error"]["code"].as_i64()) {
            (Version::V28, Some(-32022..=-32020)) => 400,
            (Version::V28, Some(-32601)) => 404,
            _ => 200,
        };
        assert_eq!(status, due, "{message}");
    }

    /// Something that is no response: checked, and answered if it asks.
    fn heard(&mut self, message: &Value, request: &Value) {
        let wrong = asked(self.version, Towards::Client, message, true);
        assert!(wrong.is_empty(), "{:?}, {}: {wrong:?}\n{message}", self.kind, self.version.name());
        self.own(message);
        let method = message["method"].as_str().unwrap();
        *self.counts.messages.entry(method.to_owned()).or_default() += 1;
        if method == "notifications/progress" {
            let own = message["params"]["progressToken"].as_str().unwrap_or_default();
            assert!(own.starts_with(&self.token), "somebody else's progress: {message}");
        }
        if method == "elicitation/create" {
            assert!(message.to_string().contains(&self.token), "a question without its subject: {message}");
            let mut result = self.consent();
            let related = &message["params"]["_meta"]["io.modelcontextprotocol/related-task"];
            let task = &request["params"]["taskId"];
            if request["method"] == "tasks/result" {
                assert_eq!(related["taskId"], *task, "whose question is it (A-066): {message}");
                result["_meta"] = json!({ "io.modelcontextprotocol/related-task": related });
            } else {
                assert!(related.is_null(), "a question about a task that nobody has: {message}");
            }
            self.tell(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }));
        }
    }

    /// What a person says.
    pub(crate) fn consent(&self) -> Value {
        if self.agrees {
            json!({ "action": "accept", "content": { "approve": true } })
        } else {
            json!({ "action": "decline" })
        }
    }

    /// Checks the result of a deployment: as the person said, and about one's own version.
    pub(crate) fn is_settled(&self, result: &Value) {
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        assert!(text.contains(&self.token), "another's: {result}");
        assert_eq!(result["isError"], !self.agrees, "{result}");
        assert_eq!(text.contains("is deployed"), self.agrees, "{result}");
    }

    pub(crate) fn is_report(&self, result: &Value) {
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        assert!(
            text.contains(&self.token) && text.contains("is ready"),
            "{result}, and mine is {}",
            self.token
        );
    }

    pub(crate) fn played(&mut self, play: &'static str) {
        *self.counts.plays.entry(play).or_default() += 1;
    }

    /// A moment, before one asks again.
    pub(crate) fn rest(&mut self) {
        std::thread::sleep(Duration::from_millis(40 + self.dice.roll(80)));
    }
}
