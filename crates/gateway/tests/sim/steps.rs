//! What a client does, step by step, until all its wishes came out.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Client;
use crate::mind::{Done, Front, Why, Wish};
use crate::world::Part;

/// For what is answered at once: reads, and writes of a slow disk.
const SOON: Duration = Duration::from_secs(8);

/// A plain call or a `wait`: the sync budget, and a little.
const BUDGET: Duration = Duration::from_secs(50);

/// What is held until a task is over.
const HELD: Duration = Duration::from_secs(900);

impl Client {
    /// Gets everything done that it wants, one after the other.
    pub(crate) async fn run(self: Arc<Self>) {
        if self.life.part == Part::After {
            return self.come_late().await;
        }
        self.open().await;
        if self.is_piped {
            tokio::select! {
                biased;
                () = self.resend() => {}
                () = self.answer_meanwhile() => {}
            }
        } else if self.front != Front::B && self.one_in(2) {
            tokio::spawn(self.clone().stand());
        }
        self.count_lost();
        let count = self.mind.lock().wishes.len();
        for at in 0..count {
            self.pause(400).await;
            self.fulfil(at).await;
        }
        if self.life.part == Part::Last {
            self.try_again().await;
            self.look_again().await;
        }
    }

    /// What was asked for when the gateway died, and is not sent again by a pipe, has no answer.
    pub(crate) fn count_lost(&self) {
        let asking: Vec<usize> = {
            let mind = self.mind.lock();
            (0..mind.wishes.len()).filter(|at| mind.wishes[*at].is_asking).collect()
        };
        for at in asking {
            self.count("an answer that died with the gateway");
            self.lost(&Why::Call(at));
        }
    }

    /// Answers what is asked while something is held.
    pub(crate) async fn answer_meanwhile(self: &Arc<Self>) {
        loop {
            tokio::time::sleep(Duration::from_millis(2_000)).await;
            let ids: Vec<String> =
                self.mind.lock().wishes.iter().filter_map(|wish| wish.id.clone()).collect();
            for id in ids {
                self.answer_by_hand(&id).await;
            }
        }
    }

    pub(crate) async fn pause(&self, most: usize) {
        tokio::time::sleep(Duration::from_millis(self.below(most) as u64)).await;
    }

    pub(crate) fn wish(&self, at: usize) -> Wish {
        self.mind.lock().wishes[at].clone()
    }

    pub(crate) async fn fulfil(self: &Arc<Self>, at: usize) {
        for turn in 0.. {
            let wish = self.wish(at);
            if wish.done.is_some() {
                break;
            }
            if turn > 400 {
                self.broke(format!("INV-35: {} does not come to an end: {wish:?}", wish.name));
                return;
            }
            match &wish.id {
                None => self.call(at).await,
                Some(id) => self.follow(id).await,
            }
            if self.one_in(5) {
                self.mischief(at).await;
            }
            let has_lost = !self.is_piped && self.wish(at).id.is_none();
            // Whoever lost an answer may come back when there is one.
            let most = if has_lost && !self.one_in(3) { 90_000 } else { [1, 40, 1_500][self.below(3)] };
            self.pause(most).await;
        }
        if self.one_in(3) {
            self.mischief(at).await;
        }
    }

    /// The call itself, for the first time or again.
    pub(crate) async fn call(self: &Arc<Self>, at: usize) {
        let wish = self.wish(at);
        let params = self.call_params(&wish, &wish.name, true);
        {
            let mut mind = self.mind.lock();
            mind.wishes[at].calls += 1;
            mind.wishes[at].is_asking = true;
        }
        let bound = match self.front {
            Front::A => SOON,
            // `task_after`, and as long as a person of its own is asked.
            Front::B => SOON,
            Front::Plain => BUDGET,
        };
        self.ask(Why::Call(at), "tools/call", params, bound).await;
    }

    pub(crate) fn call_params(&self, wish: &Wish, name: &str, goes_on: bool) -> Value {
        let mut params = json!({"name": wish.tool, "arguments": {"wish": name}});
        if let Some(key) = &wish.key {
            params["_meta"]["taskgate/idempotency-key"] = json!(key);
        }
        if self.one_in(2) {
            let mut mind = self.mind.lock();
            let token = format!("p-{}-{}", wish.name, mind.tokens.len());
            params["_meta"]["progressToken"] = json!(token);
            mind.tokens.insert(token);
        }
        if self.front == Front::A {
            params["task"] = if self.one_in(2) { json!({"ttl": 3_600_000 * 40}) } else { json!({}) };
        }
        if let (Some((state, answers)), true) = (&wish.round, goes_on) {
            params["requestState"] = json!(state);
            params["inputResponses"] = serde_json::from_str(answers).unwrap_or_default();
        }
        params
    }

    pub(crate) async fn follow(self: &Arc<Self>, id: &str) {
        if self.one_in(10) {
            self.cancel(id).await;
            return;
        }
        match self.front {
            Front::Plain => {
                if !self.answer_by_hand(id).await {
                    self.tool("wait", Why::Result(id.to_owned()), json!({"taskId": id}), BUDGET).await;
                }
            }
            Front::A => match self.below(4) {
                0 => self.get(id).await,
                1 => {
                    // Two that wait are both told.
                    self.count("two that wait");
                    tokio::join!(self.held(id), self.held(id));
                }
                2 => {
                    tokio::join!(self.held(id), self.get(id));
                }
                _ => self.held(id).await,
            },
            Front::B => {
                self.get(id).await;
                if self.answer_by_hand(id).await {
                    return;
                }
                let is_over = {
                    let mind = self.mind.lock();
                    mind.wishes.iter().any(|wish| wish.id.as_deref() == Some(id) && wish.done.is_some())
                };
                if !is_over && self.one_in(3) {
                    self.listen(id).await;
                }
            }
        }
    }

    pub(crate) async fn get(self: &Arc<Self>, id: &str) {
        self.ask(Why::Get(id.to_owned()), "tasks/get", json!({"taskId": id}), SOON).await;
    }

    pub(crate) async fn held(self: &Arc<Self>, id: &str) {
        self.ask(Why::Result(id.to_owned()), "tasks/result", json!({"taskId": id}), HELD).await;
    }

    /// Waits for news, and answers what is asked meanwhile.
    pub(crate) async fn listen(self: &Arc<Self>, id: &str) {
        let params = json!({"notifications": {"taskIds": [id]}});
        let listening = self.ask(Why::Listen(id.to_owned()), "subscriptions/listen", params, HELD);
        tokio::select! {
            biased;
            () = listening => {}
            () = self.answer_meanwhile() => {}
        }
    }

    pub(crate) async fn tool(
        self: &Arc<Self>,
        action: &str,
        why: Why,
        mut arguments: Value,
        bound: Duration,
    ) {
        arguments["action"] = json!(action);
        self.ask(why, "tools/call", json!({"name": "taskgate_task", "arguments": arguments}), bound).await;
    }

    pub(crate) async fn cancel(self: &Arc<Self>, id: &str) {
        let why = Why::Cancel(id.to_owned());
        match self.front {
            Front::Plain => self.tool("cancel", why, json!({"taskId": id}), SOON).await,
            Front::A | Front::B => self.ask(why, "tasks/cancel", json!({"taskId": id}), SOON).await,
        }
    }

    /// Answers the questions that were read and have no answer yet, as a client that is not asked on a connection does.
    /// Whether there were any.
    pub(crate) async fn answer_by_hand(self: &Arc<Self>, id: &str) -> bool {
        let open: Vec<String> = {
            let book = self.life.world.book.lock();
            let Some(known) = book.tasks.get(id) else { return false };
            book.asked(id).into_iter().filter(|key| !known.answered.contains(key)).collect()
        };
        for key in &open {
            let token = self.life.world.token();
            if self.one_in(4) {
                // Two at once: one of them is taken.
                self.count("answered twice at once");
                let other = self.life.world.token();
                tokio::join!(self.answer(id, key, &token), self.answer(id, key, &other));
            } else {
                self.answer(id, key, &token).await;
            }
        }
        !open.is_empty()
    }

    pub(crate) async fn answer(self: &Arc<Self>, id: &str, key: &str, token: &str) {
        let why = Why::Answer(id.to_owned(), key.to_owned(), token.to_owned());
        let reply = json!({"action": "accept", "content": {"token": token}});
        match self.front {
            Front::Plain => {
                self.tool("answer", why, json!({"taskId": id, "key": key, "reply": reply}), SOON).await;
            }
            Front::B => {
                let params = json!({"taskId": id, "inputResponses": {key: reply}});
                self.ask(why, "tasks/update", params, SOON).await;
            }
            // It answers where it is asked.
            Front::A => {}
        }
    }

    /// What a client does that is wrong, forgetful or curious.
    pub(crate) async fn mischief(self: &Arc<Self>, at: usize) {
        let wish = self.wish(at);
        let is_done = matches!(wish.done, Some(Done::Returned(_)));
        let is_known = wish.id.is_some() || is_done;
        let may_join = self.front == Front::Plain && wish.key.is_none() && !wish.is_free();
        match self.below(5) {
            // Another call under a key that is taken, and that nobody gave free.
            0 if wish.key.is_some()
                && is_done
                && !wish.was_misused
                && !self.life.world.is_undone(&wish.name) =>
            {
                self.mind.lock().wishes[at].was_misused = true;
                let params = self.call_params(&wish, &format!("{}-other", wish.name), false);
                self.ask(Why::Misuse(at), "tools/call", params, SOON).await;
            }
            // The same call under its key, as if its answer had been lost.
            1 if wish.key.is_some() && is_known => {
                self.count("a keyed call made again");
                self.call(at).await;
            }
            // The same call, meant as another one: what was read is not waiting to be joined any more (design 3).
            1 if may_join && self.has.lock().contains(&at) => {
                self.count("the same call meant as another one");
                self.mind.lock().wishes[at].licence += 1;
                let params = self.call_params(&wish, &wish.name, false);
                self.ask(Why::Anew(at), "tools/call", params, BUDGET).await;
            }
            2 => self.spy().await,
            // Answers under keys that are answered, or were never asked.
            3 => {
                let Some(id) = &wish.id else { return };
                let used: Vec<String> = {
                    let book = self.life.world.book.lock();
                    book.tasks
                        .get(id)
                        .map(|known| known.answered.iter().cloned().collect())
                        .unwrap_or_default()
                };
                for key in used.into_iter().chain(["in-99".to_owned()]) {
                    self.count("an answer to a question that is not open");
                    let token = self.life.world.token();
                    self.life.world.book.lock().forbidden.insert(token.clone());
                    self.answer(id, &key, &token).await;
                }
            }
            _ if self.is_piped && self.front != Front::B => self.list().await,
            _ => {}
        }
    }

    pub(crate) async fn list(self: &Arc<Self>) {
        match self.front {
            Front::A => self.ask(Why::List, "tasks/list", json!({}), SOON).await,
            Front::Plain | Front::B => self.tool("list", Why::List, json!({}), SOON).await,
        }
    }

    /// Somebody else's task, or none at all.
    pub(crate) async fn spy(self: &Arc<Self>) {
        let id = {
            let book = self.life.world.book.lock();
            let foreign: Vec<String> = book
                .tasks
                .iter()
                .filter(|(_, known)| known.principal != self.principal)
                .map(|(id, _)| id.clone())
                .collect();
            drop(book);
            let at = self.below(foreign.len() + 1);
            foreign.get(at).cloned().unwrap_or_else(|| format!("t{}", "0".repeat(36)))
        };
        match self.front {
            Front::Plain => self.tool("wait", Why::Spy(id.clone()), json!({"taskId": id}), SOON).await,
            Front::A | Front::B => {
                self.ask(Why::Spy(id.clone()), "tasks/get", json!({"taskId": id}), SOON).await;
            }
        }
    }

    /// Days later: the ids that it holds, and its keyed calls once more (INV-30).
    pub(crate) async fn come_late(self: &Arc<Self>) {
        // Its session has ended of itself.
        self.mind.lock().session = None;
        self.open().await;
        // Expired tasks are deleted twice a minute.
        tokio::time::sleep(Duration::from_secs(90)).await;
        self.look_again().await;
        let count = self.mind.lock().wishes.len();
        for at in 0..count {
            let wish = self.wish(at);
            if wish.key.is_some() {
                let params = self.call_params(&wish, &wish.name, false);
                self.mind.lock().wishes[at].calls += 1;
                self.ask(Why::Late(at), "tools/call", params, BUDGET).await;
            }
        }
    }

    /// Keyed calls of which a person says that nothing was done, once more under their keys.
    pub(crate) async fn try_again(self: &Arc<Self>) {
        let keyed: Vec<usize> = {
            let mind = self.mind.lock();
            (0..mind.wishes.len()).filter(|at| mind.wishes[*at].key.is_some()).collect()
        };
        if keyed.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(100)).await;
        for at in keyed {
            if !self.life.world.is_undone(&self.wish(at).name) {
                continue;
            }
            self.count("a keyed call made again on a person's word");
            {
                let wish = &mut self.mind.lock().wishes[at];
                (wish.done, wish.id, wish.round) = (None, None, None);
            }
            self.fulfil(at).await;
            // Time for the person to take it back.
            tokio::time::sleep(Duration::from_secs(400)).await;
        }
    }

    /// In the end: everything that this client may see is as it was, whoever made it.
    pub(crate) async fn look_again(self: &Arc<Self>) {
        let mine: Vec<String> = {
            let book = self.life.world.book.lock();
            book.tasks
                .iter()
                .filter(|(_, known)| known.principal == self.principal)
                .map(|(id, _)| id.clone())
                .collect()
        };
        for id in mine {
            self.count("a task looked at again");
            match self.front {
                Front::Plain => {
                    self.tool("wait", Why::Result(id.clone()), json!({"taskId": id}), BUDGET).await
                }
                Front::A => {
                    self.get(&id).await;
                    self.held(&id).await;
                }
                Front::B => self.get(&id).await,
            }
        }
    }
}
