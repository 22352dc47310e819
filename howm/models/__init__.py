"""World models: extract objects, bind actions to them, predict the transition."""
