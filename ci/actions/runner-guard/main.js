require("../run.js")("guard");
