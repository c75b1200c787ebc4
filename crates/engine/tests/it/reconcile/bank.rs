//! A system of record whose every word the test decides.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use taskgate_core::budget::Allowance;
use taskgate_core::id::{OperationId, ServerName, WorkflowName};
use taskgate_core::operation::{Effect, Operation, Verdict};
use taskgate_core::recovery::Survival;
use taskgate_core::time::Millis;
use taskgate_engine::back::Answer;
use taskgate_engine::engine::NewCall;
use taskgate_engine::limits::Limits;
use taskgate_engine::rules::{
    About, Asks, Hidden, Look, Receipted, Request, RuleFailed, Rules, Said, Webhook,
};
use taskgate_engine::web::{Notice, Web, WebAnswer};
use taskgate_store::Store;
use taskgate_store::memory::MemoryStore;
use taskgate_store::record::{Intent, Key};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::stage::{Heard, Puppet, Stage, call, text};

/// What the bank's workflow says. The words of the bank: `yes`, `no`, and others, which say neither.
pub(crate) struct Policy {
    pub(crate) asks: Asks,
    pub(crate) fences: bool,
    /// Asked by HTTP instead of by a tool.
    pub(crate) by_http: bool,
    pub(crate) hook: bool,
    /// Its rules are not here now.
    pub(crate) awaited: Arc<AtomicBool>,
}

impl Default for Policy {
    fn default() -> Policy {
        let second = Millis::secs(1);
        Policy {
            asks: Asks { first: second, every: second, budget: None, settle: None, resend: false },
            fences: false,
            by_http: false,
            hook: false,
            awaited: Arc::default(),
        }
    }
}

pub(crate) fn budget(secs: u64, attempts: u32) -> Option<Allowance> {
    Some(Allowance { time: Millis::secs(secs), attempts })
}

impl Rules for Policy {
    fn receipt(&self, _: &About<'_>, result: &Bytes, _: bool) -> Result<Option<Receipted>, RuleFailed> {
        let is_one = result.starts_with(b"receipt");
        Ok(is_one.then(|| Receipted::Proof { reference: "tx-1".into(), verdict: Verdict::Applied }))
    }
    fn asks(&self, workflow: &WorkflowName) -> Option<Asks> {
        (workflow.0 == "pay").then_some(self.asks)
    }
    fn probe(&self, about: &About<'_>) -> Result<Request, RuleFailed> {
        if self.by_http {
            let url = format!("https://bank.example/effects/{}", about.operation);
            return Ok(Request::Get { url, headers: vec![("x-key".into(), Hidden("secret".into()))] });
        }
        Ok(tool("look"))
    }
    fn judge(&self, _: &About<'_>, said: &Said<'_>) -> Result<Look, RuleFailed> {
        let body = match said {
            Said::Tool { result, .. } => *result,
            Said::Http { body, .. } => *body,
        };
        match body {
            b"yes" => Ok(Look::Applied),
            b"no" => Ok(Look::NotApplied),
            b"huh" => Ok(Look::Unclear("it says neither".into())),
            _ => Err(RuleFailed("no such member: applied".into())),
        }
    }
    fn fence(&self, _: &About<'_>) -> Result<Option<Request>, RuleFailed> {
        Ok(self.fences.then(|| tool("fence")))
    }
    fn is_fenced(&self, _: &About<'_>, said: &Said<'_>) -> Result<bool, RuleFailed> {
        match said {
            Said::Tool { result, .. } => Ok(*result == b"fenced"),
            Said::Http { .. } => Err(RuleFailed("a fence is a tool".into())),
        }
    }
    fn is_awaited(&self, _: &WorkflowName) -> bool {
        self.awaited.load(Ordering::SeqCst)
    }
    fn owners(&self, _: &WorkflowName) -> Vec<String> {
        vec!["treasury".into()]
    }
    fn webhook(&self, _: &WorkflowName) -> Option<Webhook> {
        let headers = vec![("x-hook".into(), Hidden("secret".into()))];
        self.hook.then(|| Webhook { url: "https://hooks.example/1".into(), headers })
    }
}

fn tool(name: &str) -> Request {
    Request::Tool {
        server: ServerName("s".into()),
        tool: name.into(),
        params: Bytes::from(format!("{{\"name\":\"{name}\",\"arguments\":{{}}}}")),
    }
}

/// What the bank says: these first, and then this for ever.
pub(crate) struct Script {
    first: Mutex<VecDeque<Answer>>,
    then: Mutex<Answer>,
    asked: AtomicUsize,
    hangs: AtomicUsize,
}

impl Script {
    pub(crate) fn of(then: Answer) -> Arc<Script> {
        Arc::new(Script {
            first: Mutex::default(),
            then: Mutex::new(then),
            asked: AtomicUsize::new(0),
            hangs: AtomicUsize::new(0),
        })
    }

    pub(crate) fn first(&self, answer: Answer) {
        self.first.lock().push_back(answer);
    }

    pub(crate) fn then(&self, answer: Answer) {
        *self.then.lock() = answer;
    }

    /// The next so many are not answered at all.
    pub(crate) fn hang(&self, times: usize) {
        self.hangs.store(times, Ordering::SeqCst);
    }

    fn hangs_now(&self) -> bool {
        self.hangs.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    }

    fn next(&self) -> Answer {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.first.lock().pop_front().unwrap_or_else(|| self.then.lock().clone())
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// The web: GETs are answered from a script, and notices kept.
pub(crate) struct Online {
    pub(crate) status: Mutex<Result<u16, String>>,
    pub(crate) looks: Arc<Script>,
    pub(crate) notices: Mutex<Vec<Notice>>,
    /// How many deliveries fail before one is acknowledged.
    pub(crate) deaf_for: AtomicUsize,
}

#[async_trait]
impl Web for Online {
    async fn get(
        &self,
        url: &str,
        headers: &[(String, Hidden)],
        _: Duration,
        _: usize,
    ) -> Result<WebAnswer, String> {
        assert!(url.starts_with("https://bank.example/effects/op-"), "{url}");
        assert_eq!(headers.len(), 1);
        let Answer::Returned { result, .. } = self.looks.next() else { return Err("no answer".into()) };
        self.status.lock().clone().map(|status| WebAnswer { status, body: result })
    }

    async fn notify(&self, hook: &Webhook, notice: &Notice, _: Duration) -> Result<(), String> {
        assert_eq!(hook.url, "https://hooks.example/1");
        self.notices.lock().push(notice.clone());
        let deaf = self.deaf_for.load(Ordering::SeqCst);
        if deaf == 0 {
            return Ok(());
        }
        self.deaf_for.store(deaf - 1, Ordering::SeqCst);
        Err("it answered HTTP 503".into())
    }
}

/// An engine that reconciles, its store, and the bank behind it.
pub(crate) struct Town {
    pub(crate) stage: Stage,
    pub(crate) looks: Arc<Script>,
    pub(crate) fences: Arc<Script>,
    pub(crate) online: Arc<Online>,
    pays: tokio::sync::Mutex<mpsc::UnboundedReceiver<Heard>>,
    world: JoinHandle<()>,
    reconciling: JoinHandle<()>,
}

impl Drop for Town {
    fn drop(&mut self) {
        self.world.abort();
        self.reconciling.abort();
    }
}

impl Town {
    pub(crate) fn new(policy: Policy) -> Town {
        Town::with(policy, Limits::default())
    }

    pub(crate) fn with(policy: Policy, limits: Limits) -> Town {
        Town::over(policy, limits, MemoryStore::new(), None)
    }

    pub(crate) fn over(
        policy: Policy,
        limits: Limits,
        store: MemoryStore,
        wrapped: Option<Arc<dyn Store>>,
    ) -> Town {
        Town::at(Survival::DiedWithUs, policy, limits, store, wrapped)
    }

    /// One whose server's own tasks end with us, or not.
    pub(crate) fn at(
        survival: Survival,
        policy: Policy,
        limits: Limits,
        store: MemoryStore,
        wrapped: Option<Arc<dyn Store>>,
    ) -> Town {
        let looks = Script::of(text("huh"));
        let online = Arc::new(Online {
            status: Mutex::new(Ok(200)),
            looks: looks.clone(),
            notices: Mutex::default(),
            deaf_for: AtomicUsize::new(0),
        });
        let back = Puppet::new(survival);
        let stage = Stage::online(store, wrapped, back, Arc::new(policy), online.clone(), limits);
        Town::around(stage, looks, Script::of(text("no")), online)
    }

    fn around(stage: Stage, looks: Arc<Script>, fences: Arc<Script>, online: Arc<Online>) -> Town {
        let (paid, pays) = mpsc::unbounded_channel();
        let (back, looked, fenced) = (stage.back.clone(), looks.clone(), fences.clone());
        let world = tokio::spawn(async move {
            let mut hanging = Vec::new();
            loop {
                let heard = back.hear().await;
                let script = match heard.outgoing.tool.as_str() {
                    "look" => &looked,
                    "fence" => &fenced,
                    _ => {
                        let _ = paid.send(heard);
                        continue;
                    }
                };
                if script.hangs_now() {
                    hanging.push(heard);
                } else {
                    let _ = heard.answer.send(script.next());
                }
            }
        });
        let engine = stage.engine.clone();
        let reconciling = tokio::spawn(async move { engine.reconcile().await });
        let pays = tokio::sync::Mutex::new(pays);
        Town { stage, looks, fences, online, pays, world, reconciling }
    }

    /// A new process over the same store, before the same bank.
    pub(crate) async fn restart(&self) -> Town {
        self.world.abort();
        self.reconciling.abort();
        let (stage, _) = self.stage.restart_ruled().await;
        Town::around(stage, self.looks.clone(), self.fences.clone(), self.online.clone())
    }

    /// The next call that reaches the server.
    pub(crate) async fn hear(&self) -> Heard {
        let hearing = async { self.pays.lock().await.recv().await.unwrap() };
        tokio::time::timeout(Duration::from_secs(7 * 24 * 3600), hearing).await.expect("a call within a week")
    }

    /// Whether no call reaches the server for so long.
    pub(crate) async fn is_quiet_for(&self, span: Duration) -> bool {
        let hearing = async { self.pays.lock().await.recv().await };
        tokio::time::timeout(span, hearing).await.is_err()
    }

    pub(crate) async fn operation(&self, id: &OperationId) -> Operation {
        self.stage.engine.operation(id).await.unwrap().unwrap().operation
    }

    /// The operation once it is so.
    pub(crate) async fn once(&self, id: &OperationId, is_so: impl Fn(&Operation) -> bool) -> Operation {
        let waiting = async {
            loop {
                let operation = self.operation(id).await;
                if is_so(&operation) {
                    return operation;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        match tokio::time::timeout(Duration::from_secs(30 * 3600), waiting).await {
            Ok(operation) => operation,
            Err(_) => panic!("{:?}\n{}", self.operation(id).await, self.history(id).await),
        }
    }

    pub(crate) async fn history(&self, id: &OperationId) -> String {
        let history = self.stage.engine.history(id).await.unwrap();
        history.iter().flat_map(|happening| happening.lines.clone()).collect::<Vec<_>>().join("\n")
    }
}

pub(crate) fn pay() -> NewCall {
    let mut new = call(Effect::Consequential);
    new.call.intent = Some(Intent { workflow: WorkflowName("pay".into()), object: None, effect: None });
    new.call.key = Some(Key::of_caller("k-1"));
    new
}

pub(crate) fn lost() -> Answer {
    Answer::Lost("connection closed".to_owned())
}
