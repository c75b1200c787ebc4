#!/usr/bin/env node
// node_plain as npx starts it: `npx -y file:…/servers/npm`.
import "../node_plain.mjs";
