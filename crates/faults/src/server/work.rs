//! What a call does.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Shop, Word};

/// The member of `_meta` that tells a repetition from another call.
const TOKEN: &str = "taskgate/idempotency-key";

/// A call, understood.
#[derive(Clone)]
pub(super) struct Call {
    what: What,
    pub(super) key: String,
    order: Value,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Pay,
    Look,
    Fence,
}

/// How it ended.
pub(super) enum Ended {
    /// With a tool result.
    Result(Value),
    /// With a JSON-RPC error.
    Error(Value),
}

impl Call {
    /// `None` if it is none of ours or its arguments do not fit.
    pub(super) fn parse(params: &Value) -> Option<Call> {
        let name = params["name"].as_str()?;
        let what = match name {
            "payment_status" => What::Look,
            "fence_payment" => What::Fence,
            _ if name.starts_with("pay") => What::Pay,
            _ => return None,
        };
        let arguments = &params["arguments"];
        let key = arguments["key"].as_str().filter(|key| !key.is_empty())?.to_owned();
        if what == What::Pay {
            arguments["amount"].as_f64()?;
        }
        let order = json!({
            "key": key, "object": arguments["object"].as_str().unwrap_or_default(), "amount": arguments["amount"],
            "token": params["_meta"][TOKEN], "once": name == "pay_keyed", "as": arguments["as"],
        });
        Some(Call { what, key, order })
    }

    /// Whether it is worth a task.
    pub(super) fn is_long(&self) -> bool {
        self.what == What::Pay
    }
}

impl Shop {
    /// Notes that a call was not understood; it is refused with `-32602`.
    pub(super) fn misunderstands(&self, params: &Value) {
        self.says(params["arguments"]["key"].as_str().unwrap_or_default(), Word::NotUnderstood);
    }

    /// Carries a call out to its end, whoever is still there to hear of it.
    pub(super) async fn perform(self: &Arc<Self>, call: Call) -> Ended {
        let shop = self.clone();
        let work = tokio::spawn(async move { shop.carry_out(call).await });
        work.await.unwrap_or_else(|_| result("the work broke off", true, json!({})))
    }

    async fn carry_out(&self, call: Call) -> Ended {
        match call.what {
            What::Pay => self.pay(&call).await,
            What::Look => {
                let said =
                    crate::web::ask(self.bank, "GET", &format!("/effects/{}", call.key), &Value::Null).await;
                match said {
                    Ok((200, body)) if body.is_object() => result("the bank says", false, body),
                    Ok((status, _)) => {
                        result(&format!("the bank answered {status} and nothing to be read"), true, json!({}))
                    }
                    Err(error) => result(&format!("the bank did not answer: {error}"), true, json!({})),
                }
            }
            What::Fence => {
                let said =
                    crate::web::ask(self.bank, "POST", &format!("/fence/{}", call.key), &Value::Null).await;
                match said {
                    Ok((200 | 409, body)) if body.is_object() => {
                        result("the bank says of the fence", false, body)
                    }
                    Ok((status, _)) => {
                        result(&format!("the bank answered {status} and nothing to be read"), true, json!({}))
                    }
                    Err(error) => result(&format!("the bank did not answer: {error}"), true, json!({})),
                }
            }
        }
    }

    async fn pay(&self, call: &Call) -> Ended {
        let key = &call.key;
        let said = crate::web::ask(self.bank, "POST", "/effects", &call.order).await;
        let (word, ended) = match said {
            _ if call.order["as"] == "rpc_error" => {
                let error = json!({ "code": -32000, "message": format!("something went wrong with {key}") });
                (Word::OtherError, Ended::Error(error))
            }
            Ok((200, body)) if body["applied"] == true => {
                let paid = json!({ "key": key, "paid": true, "receipt": body["reference"] });
                (Word::Success, result(&format!("paid {key}"), false, paid))
            }
            Ok((202, _)) => {
                let accepted = json!({ "key": key, "paid": false, "accepted": true });
                (Word::Success, result(&format!("{key} will be paid"), false, accepted))
            }
            Ok((status, _)) => {
                let words =
                    format!("the bank answered {status} about {key}, and nothing that says it was paid");
                (Word::ToolError, result(&words, true, json!({ "key": key })))
            }
            Err(_) => (
                Word::ToolError,
                result(&format!("the bank did not answer about {key}"), true, json!({ "key": key })),
            ),
        };
        self.says(key, word);
        ended
    }
}

fn result(text: &str, is_error: bool, structured: Value) -> Ended {
    Ended::Result(json!({
        "content": [{ "type": "text", "text": text }], "structuredContent": structured, "isError": is_error,
    }))
}

/// `tools/list`, with a tool `pay_NAME` for each policy that a campaign has. As short as it may be, since a campaign cuts it
/// at each of its bytes.
pub(super) fn list() -> Value {
    let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
    let mut tools: Vec<_> = super::PAYMENTS.iter().map(|name| tool(name)).collect();
    tools.push(tool("fence_payment"));
    let mut status = tool("payment_status");
    status["annotations"] = json!({ "readOnlyHint": true });
    tools.push(status);
    json!({ "tools": tools })
}
