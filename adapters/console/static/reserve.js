// The form of a claim: its classes follow the pool.
"use strict";
