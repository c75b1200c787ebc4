//! Listening for what a modern server announces: it tells only those who ask (B-112).

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use taskgate_wire::Era;
use tokio::time::{Instant, sleep};

use crate::core::{Ask, Core};
use crate::heard::Heard;

/// After a subscription ended unexpectedly (B-135).
const AGAIN: Duration = Duration::from_secs(1);
/// At most.
const AGAIN_MAX: Duration = Duration::from_secs(60);

impl Core {
    /// Keeps a subscription to changes of lists open for as long as the session lives, if the server has any.
    pub(crate) fn subscribe(self: &Arc<Self>) {
        let manifest = self.manifest();
        if manifest.era() != Era::Modern {
            return;
        }
        let wanted: Vec<String> = ["tools", "prompts", "resources"]
            .into_iter()
            .filter(|list| {
                let announced = taskgate_wire::json::at(&manifest.back.capabilities, &[list, "listChanged"]);
                announced == Some("true")
            })
            .map(|list| format!("\"{list}ListChanged\":true"))
            .collect();
        if !wanted.is_empty() {
            let params = format!("{{\"notifications\":{{{}}}}}", wanted.join(","));
            tokio::spawn(keep(Arc::downgrade(self), params));
        }
    }
}

async fn keep(core: Weak<Core>, params: String) {
    let mut wait = AGAIN;
    loop {
        let Some(core) = core.upgrade() else { return };
        let closing = core.closing.clone();
        if core.over().is_some() || closing.is_cancelled() {
            return;
        }
        let opened = Instant::now();
        core.background.fetch_add(1, Ordering::Relaxed);
        let heard = tokio::select! {
            heard = core.listen(&params) => Some(heard),
            () = closing.cancelled() => None,
        };
        core.background.fetch_sub(1, Ordering::Relaxed);
        drop(core);
        match heard {
            // Not offered after all, or the end.
            None | Some(Heard::Error(_) | Heard::Refused(_) | Heard::Nonsense(_) | Heard::SessionGone) => {
                return;
            }
            Some(Heard::Result(_) | Heard::NeverSent(_) | Heard::Lost(_)) => {}
        }
        wait = if opened.elapsed() > AGAIN_MAX { AGAIN } else { (wait * 2).min(AGAIN_MAX) };
        sleep(wait).await;
    }
}

impl Core {
    async fn listen(&self, params: &str) -> Heard {
        let ask = Ask {
            patience: None,
            declares_tasks: false,
            ..Ask::read("subscriptions/listen", Some(params), self.config.read_timeout)
        };
        self.ask_quietly(ask).await.heard
    }
}
